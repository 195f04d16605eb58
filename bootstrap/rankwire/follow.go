package rankwire

import (
	"fmt"

	"ibrun/bootstrap/frame"
)

// KindFollow is of programs of Charm++ that can change their size
// (docs/dev/decisions/0029-charm.md).
const KindFollow frame.Kind = 117 // both, passed on by agents

// FollowStep is what process 0 of such a program reports for all.
type FollowStep uint8

const (
	FollowCan    FollowStep = iota // the program can change its size; goes to the root only
	FollowResize                   // all wait to go on with another number of processes
	FollowEnd                      // all wait for the end of the job
	FollowCannot                   // the change that is asked for is none that it can make; goes to the root only
	followSteps
)

func (s FollowStep) String() string {
	return [...]string{"can", "resize", "end", "cannot", "?"}[min(s, followSteps)]
}

// Follow is what one process has reported for all: rank 0 to the root, and the root to all others,
// which join the collective that it is. Code is the exit code of FollowEnd.
type Follow struct {
	Step FollowStep
	Code uint8
}

func (Follow) Kind() frame.Kind { return KindFollow }

func (m Follow) Encode(w *frame.Encoder) {
	w.Byte(byte(m.Step))
	w.Byte(m.Code)
}

func parseFollow(r *frame.Decoder) frame.Message {
	m := Follow{Step: FollowStep(r.Byte()), Code: r.Byte()}
	if m.Step >= followSteps || m.Code > 0 && m.Step != FollowEnd {
		r.Fail(frame.ErrRange)
	}
	return m
}

func (m Follow) String() string { return fmt.Sprintf("Follow step=%v code=%d", m.Step, m.Code) }
