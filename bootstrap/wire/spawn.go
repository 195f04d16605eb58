package wire

import (
	"fmt"
	"math"
	"slices"
	"time"

	"ibrun/job"
)

// Spawn is a rank's request for further programs (MPI_Comm_spawn), on its way to
// the root, which starts them as a job of their own.
type Spawn struct {
	Rank     job.Slot // which asks
	Commands Commands
	Preput   Pairs // what the new job's key-value space begins with
}

// Command is one program of a Spawn.
type Command struct {
	Argv  Strings // the program first
	Ranks uint32  // 1 or more
	Dir   string  // working directory; empty: the asking rank's
}

// Spawned answers a Spawn: all ranks run, or Refused says why not.
type Spawned struct {
	Rank    job.Slot
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
	maxSpawn     = 4 << 20 // bytes of programs and pairs: the kernel takes no more for one program
	maxSpawnWord = 1 << 16 // bytes of an argument, directory, key or value
	maxRefusal   = 1 << 12 // bytes of the reason
	maxJobID     = 16
)

func (Spawn) Kind() Kind     { return KindSpawn }
func (Spawned) Kind() Kind   { return KindSpawned }
func (Offspring) Kind() Kind { return KindOffspring }

func (m Spawn) append(w *writer) {
	w.slot(m.Rank)
	appendList(w, m.Commands)
	appendList(w, m.Preput)
}

// NewStrings packs strings.
func NewStrings(list ...string) Strings { return listOf[string, stringCodec](slices.Values(list)) }

// NewCommands packs programs.
func NewCommands(list ...Command) Commands { return listOf[Command, commandCodec](slices.Values(list)) }

// NewPairs packs pairs.
func NewPairs(list ...job.Pair) Pairs { return listOf[job.Pair, pairCodec](slices.Values(list)) }

func (commandCodec) append(w *writer, c Command) {
	appendList(w, c.Argv)
	w.u32(c.Ranks)
	w.string(c.Dir)
}

func (commandCodec) read(r *reader) Command {
	return Command{Argv: parseList[string, stringCodec](r, 1, nil), Ranks: uint32(r.uint(job.MaxRanks)), Dir: r.text(maxSpawnWord)}
}

func (pairCodec) append(w *writer, p job.Pair) {
	w.string(p.Key)
	w.string(p.Value)
}

func (pairCodec) read(r *reader) job.Pair {
	return job.Pair{Key: r.text(maxSpawnWord), Value: r.text(maxSpawnWord)}
}

func parseSpawn(r *reader) Message { return spawnOf(r) }

func spawnOf(r *reader) Spawn {
	total := uint64(0)
	m := Spawn{Rank: r.slot()}
	m.Commands = parseList[Command, commandCodec](r, 4, func(c Command) error {
		if total += uint64(c.Ranks); c.Argv.Len() == 0 || c.Ranks == 0 || total > job.MaxRanks {
			return ErrRange
		}
		return nil
	})
	m.Preput = parseList[job.Pair, pairCodec](r, 2, nil)
	if m.Commands.Len() == 0 || m.Commands.Size()+m.Preput.Size() > maxSpawn {
		r.fail(ErrRange)
	}
	return m
}

func (m Spawned) append(w *writer) {
	w.slot(m.Rank)
	w.string(m.JobID)
	w.string(m.Refused[:min(len(m.Refused), maxRefusal)])
}

func parseSpawned(r *reader) Message {
	return Spawned{Rank: r.slot(), JobID: r.text(maxJobID), Refused: r.text(maxRefusal)}
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
	return fmt.Sprintf("Spawn rank=%d commands=%d preput=%d", m.Rank, m.Commands.Len(), m.Preput.Len())
}

func (m Spawned) String() string { return fmt.Sprintf("Spawned rank=%d %q", m.Rank, m.Refused) }

func (m Offspring) String() string {
	return fmt.Sprintf("Offspring job=%s nodes=%d %v", m.Job.ID, m.Alloc.Len(), m.Spawn)
}
