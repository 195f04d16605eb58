package wire

import (
	"fmt"
	"math"
	"time"

	"ibrun/job"
)

// Spawn is a rank's wish for further programs (MPI_Comm_spawn), on its way to
// the root, which starts them as a job of their own.
type Spawn struct {
	Rank     uint32 // who asks
	Commands []Command
	Preput   []job.Pair // what the new job's key-value space begins with
}

// Command is one program of a Spawn.
type Command struct {
	Argv  []string // the program first
	Ranks uint32   // 1 or more
	Dir   string   // working directory; empty: the asking rank's
}

// Spawned answers a Spawn: all ranks run, or Refused says why not.
type Spawned struct {
	Rank    uint32
	JobID   string // of the new job
	Refused string
}

// Offspring is the first frame to the ibrun that a root starts for a Spawn:
// the job that it comes from, and what it takes over. Names, and one Spawned,
// follow on the same descriptor.
type Offspring struct {
	Job   *job.Job  // of which the rank is
	Alloc job.Nodes // hosts and slots that ranks may be placed on
	Spawn Spawn
	Tree  string // as the user wrote it; Job has what became of it there

	KillOnBad, Preflight    bool
	Wait                    time.Duration
	Prefix                  string // pattern of what lines of output begin with
	Label, Timestamp, Quiet bool
	Verbose                 uint32
}

// Limits of a Spawn; PMI's own is 64 KiB for all its words.
const (
	maxSpawnWord = 1 << 16 // bytes of an argument, directory, key or value
	maxRefusal   = 1 << 12 // bytes of the reason
	maxJobID     = 16
)

func (Spawn) Kind() Kind     { return KindSpawn }
func (Spawned) Kind() Kind   { return KindSpawned }
func (Offspring) Kind() Kind { return KindOffspring }

func (m Spawn) append(w *writer) {
	w.u32(m.Rank)
	w.uint(uint64(len(m.Commands)))
	for _, c := range m.Commands {
		w.strings(c.Argv)
		w.u32(c.Ranks)
		w.string(c.Dir)
	}
	appendPairs(w, m.Preput)
}

func parseSpawn(r *reader) Message { return spawnOf(r) }

func spawnOf(r *reader) Spawn {
	m := Spawn{Rank: r.u32()}
	total := uint64(0)
	for range r.count(3) {
		var c Command
		for range r.count(1) {
			c.Argv = append(c.Argv, string(r.bytes(maxSpawnWord)))
		}
		c.Ranks, c.Dir = uint32(r.uint(job.MaxRanks)), string(r.bytes(maxSpawnWord))
		if total += uint64(c.Ranks); len(c.Argv) == 0 || c.Ranks == 0 || total > job.MaxRanks {
			r.fail(ErrRange)
			return Spawn{}
		}
		m.Commands = append(m.Commands, c)
	}
	if len(m.Commands) == 0 {
		r.fail(ErrRange)
	}
	m.Preput = parsePairs(r)
	return m
}

func appendPairs(w *writer, pairs []job.Pair) {
	w.uint(uint64(len(pairs)))
	for _, p := range pairs {
		w.string(p.Key)
		w.string(p.Value)
	}
}

func parsePairs(r *reader) (pairs []job.Pair) {
	for range r.count(2) {
		pairs = append(pairs, job.Pair{Key: string(r.bytes(maxSpawnWord)), Value: string(r.bytes(maxSpawnWord))})
	}
	return pairs
}

func (m Spawned) append(w *writer) {
	w.u32(m.Rank)
	w.string(m.JobID)
	w.string(m.Refused[:min(len(m.Refused), maxRefusal)])
}

func parseSpawned(r *reader) Message {
	return Spawned{Rank: r.u32(), JobID: string(r.bytes(maxJobID)), Refused: string(r.bytes(maxRefusal))}
}

func (m Offspring) append(w *writer) {
	appendJob(w, m.Job)
	appendNodes(w, m.Alloc)
	m.Spawn.append(w)
	w.string(m.Tree)
	w.string(m.Prefix)
	w.uint(uint64(m.Wait))
	w.u32(m.Verbose)
	for _, b := range []bool{m.KillOnBad, m.Preflight, m.Label, m.Timestamp, m.Quiet} {
		w.bool(b)
	}
}

func parseOffspring(r *reader) Message {
	return Offspring{
		Job: parseJob(r), Alloc: parseNodes(r), Spawn: spawnOf(r), Tree: r.string(), Prefix: r.string(),
		Wait: time.Duration(r.uint(math.MaxInt64)), Verbose: r.u32(),
		KillOnBad: r.bool(), Preflight: r.bool(), Label: r.bool(), Timestamp: r.bool(), Quiet: r.bool(),
	}
}

func (m Spawn) String() string {
	return fmt.Sprintf("Spawn rank=%d commands=%d preput=%d", m.Rank, len(m.Commands), len(m.Preput))
}

func (m Spawned) String() string { return fmt.Sprintf("Spawned rank=%d %q", m.Rank, m.Refused) }

func (m Offspring) String() string {
	return fmt.Sprintf("Offspring job=%s nodes=%d %v", m.Job.ID, m.Alloc.Len(), m.Spawn)
}
