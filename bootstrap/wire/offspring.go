package wire

import (
	"fmt"
	"math"
	"time"

	"ibrun/bootstrap/frame"
	"ibrun/bootstrap/rankwire"
	"ibrun/job"
)

// Offspring is the first frame to the ibrun that a root starts for a SpawnJob:
// the job that it comes from, and what it takes over. Names, and one JobSpawned,
// follow on the same descriptor.
type Offspring struct {
	Job   *job.Job  // of which the rank is
	Alloc job.Nodes // hosts and slots that ranks may be placed on
	Spawn rankwire.SpawnJob
	Tree  string // as the user wrote it; Job has what became of it there

	KillOnBad, Preflight    bool
	Wait                    time.Duration
	Prefix                  string // pattern of what lines of output begin with
	Label, Timestamp, Quiet bool
	Verbose                 uint32
}

func (Offspring) Kind() frame.Kind { return KindOffspring }

func (m Offspring) Encode(w *frame.Encoder) {
	encodeJob(w, m.Job)
	encodeNodes(w, m.Alloc)
	m.Spawn.Encode(w)
	w.Text(m.Tree)
	w.Text(m.Prefix)
	w.Uint(uint64(m.Wait))
	w.U32(m.Verbose)
	for _, b := range []bool{m.KillOnBad, m.Preflight, m.Label, m.Timestamp, m.Quiet} {
		w.Bool(b)
	}
}

func parseOffspring(r *frame.Decoder) frame.Message {
	return Offspring{
		Job: decodeJob(r), Alloc: decodeNodes(r), Spawn: rankwire.DecodeSpawnJob(r), Tree: r.Text(), Prefix: r.Text(),
		Wait: time.Duration(r.Uint(math.MaxInt64)), Verbose: r.U32(),
		KillOnBad: r.Bool(), Preflight: r.Bool(), Label: r.Bool(), Timestamp: r.Bool(), Quiet: r.Bool(),
	}
}

func (m Offspring) String() string {
	return fmt.Sprintf("Offspring job=%s nodes=%d %v", m.Job.ID, m.Alloc.Len(), m.Spawn)
}
