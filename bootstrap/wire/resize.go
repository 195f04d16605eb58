package wire

import (
	"fmt"

	"ibrun/bootstrap/frame"
	"ibrun/job"
)

// The frames of a job that changes its size, besides rankwire.Resize
// (docs/dev/decisions/0030-grow-and-shrink.md).
const (
	KindEnter    frame.Kind = 87 // down
	KindDeparted frame.Kind = 88 // up
)

// Enter lets the ranks of an agent that has come to a running job start. They count collectives
// after Op.
type Enter struct {
	Op      uint32
	Start   uint8  // of its ranks (job.Epoch)
	Resizes uint32 // changes of the job's size, this one included
	Floors  []RankFloor
}

// Departed says that of the nodes of a subtree that had to leave nothing is left.
type Departed struct{}

func (Enter) Kind() frame.Kind    { return KindEnter }
func (Departed) Kind() frame.Kind { return KindDeparted }

func (m Enter) Encode(w *frame.Encoder) {
	w.U32(m.Op)
	w.Byte(m.Start)
	w.U32(m.Resizes)
	encodeFloors(w, m.Floors)
}

func (Departed) Encode(*frame.Encoder) {}

func parseEnter(r *frame.Decoder) frame.Message {
	m := Enter{Op: r.U32(), Start: r.Byte(), Resizes: r.U32(), Floors: decodeFloors(r, 0)}
	if m.Start > job.MaxStart {
		r.Fail(frame.ErrRange)
	}
	return m
}

func parseDeparted(*frame.Decoder) frame.Message { return Departed{} }

func (m Enter) String() string {
	return fmt.Sprintf("Enter op=%d start=%d resizes=%d floors=%d", m.Op, m.Start, m.Resizes, len(m.Floors))
}
func (Departed) String() string { return "Departed" }
