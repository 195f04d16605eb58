package wire

import (
	"fmt"

	"ibrun/bootstrap/frame"
	"ibrun/job"
)

// Sweep tells an agent that has no job to kill what a lost agent of its node has left
// (docs/dev/decisions/0022-containment.md).
type Sweep struct {
	Job     string        // the job's ID
	Node    job.NodeIndex // as the ranks were told it
	GraceMs uint32        // for what an agent that lives is ending
}

// Swept answers Sweep, and is the last message.
type Swept struct {
	Killed uint32 // processes
	Left   string // what lives on, for the user; empty: nothing
}

func (Sweep) Kind() frame.Kind { return KindSweep }
func (Swept) Kind() frame.Kind { return KindSwept }

func (m Sweep) Encode(w *frame.Encoder) { w.Text(m.Job); w.U32(uint32(m.Node)); w.U32(m.GraceMs) }
func (m Swept) Encode(w *frame.Encoder) { w.U32(m.Killed); w.UserText(m.Left) }

func parseSweep(r *frame.Decoder) frame.Message {
	return Sweep{Job: r.Text(), Node: job.NodeIndex(r.U32()), GraceMs: r.U32()}
}

func parseSwept(r *frame.Decoder) frame.Message { return Swept{Killed: r.U32(), Left: r.UserText()} }

func (m Sweep) String() string {
	return fmt.Sprintf("Sweep job=%s node=%d grace=%dms", m.Job, m.Node, m.GraceMs)
}
func (m Swept) String() string { return fmt.Sprintf("Swept killed=%d left=%q", m.Killed, m.Left) }
