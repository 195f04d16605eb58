package rankwire

import (
	"fmt"

	"ibrun/bootstrap/frame"
	"ibrun/job"
)

// KindResize is of a job that changes its size (docs/dev/decisions/0030-grow-and-shrink.md).
const KindResize frame.Kind = 86 // to a rank, passed on by agents

// ResizeStep is how far a change of the job's size is.
type ResizeStep uint8

const (
	ResizeWaits  ResizeStep = iota // for all ranks to call Resize
	ResizeAgreed                   // they have: those beyond the new size leave at the next call
	ResizeDone                     // the layout holds
	resizeSteps
)

func (s ResizeStep) String() string {
	return [...]string{"waits", "agreed", "done", "?"}[min(s, resizeSteps)]
}

// Resize tells agents and ranks of a layout that the job gets, or has now. Start is that of ranks
// that come (job.Epoch): above 0 if others had their numbers before.
type Resize struct {
	Step   ResizeStep
	Start  uint8
	Layout job.Layout
}

func (Resize) Kind() frame.Kind { return KindResize }

func (m Resize) Encode(w *frame.Encoder) {
	w.Byte(byte(m.Step))
	w.Byte(m.Start)
	EncodeLayout(w, m.Layout)
}

func parseResize(r *frame.Decoder) frame.Message {
	m := Resize{Step: ResizeStep(r.Byte()), Start: r.Byte(), Layout: DecodeLayout(r)}
	if m.Step >= resizeSteps || m.Start > job.MaxStart || m.Layout.Nodes() == 0 {
		r.Fail(frame.ErrRange)
	}
	return m
}

func (m Resize) String() string {
	return fmt.Sprintf("Resize step=%v start=%d nodes=%d ranks=%d", m.Step, m.Start, m.Layout.Nodes(),
		m.Layout.Ranks())
}

// Resizable reports whether a layout can get further nodes, or fewer: the numbers of all other
// ranks stay.
func Resizable(l job.Layout) bool { return l.Plane() == 0 && len(l.Order()) == 0 }
