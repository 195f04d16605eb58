package rankwire

import (
	"slices"

	"ibrun/bootstrap/frame"
	"ibrun/job"
)

// DaemonEnds are ends of daemons of a subtree, merged (docs/dev/decisions/0028-daemons.md).
type DaemonEnds struct {
	Daemons uint32 // that were to run
	Over    uint32 // nodes whose ranks had ended before
	Lost    uint32 // nodes of which nothing is known
	Code    uint8  // the largest exit code
	More    uint32 // that failed, and are not in Failed
	Dropped uint64 // bytes of output that nobody took in time
	Failed  FailedDaemons
}

// FailedDaemon is one that did not end with 0. Number is that of its node, or the slot of its rank.
type FailedDaemon struct {
	Number uint32
	Host   string
	Status job.Status
	Cause  string // why it did not start; or empty
}

// FailedDaemons are those with the least numbers, in order.
type FailedDaemons = frame.List[FailedDaemon, failedDaemonCodec]

type failedDaemonCodec struct{}

// What bounds DaemonEnds.
const (
	MaxFailedDaemons = 256
	MaxDaemonText    = 256 // bytes of a host, and of a cause
)

// NewFailedDaemons packs daemons.
func NewFailedDaemons(failed ...FailedDaemon) FailedDaemons {
	return frame.ListOf[FailedDaemon, failedDaemonCodec](slices.Values(failed))
}

// Encode writes ends.
func (e *DaemonEnds) Encode(w *frame.Encoder) {
	w.U32(e.Daemons)
	w.U32(e.Over)
	w.U32(e.Lost)
	w.Byte(e.Code)
	w.U32(e.More)
	w.Sum(e.Dropped)
	e.Failed.Encode(w)
}

// DecodeDaemonEnds takes ends.
func DecodeDaemonEnds(r *frame.Decoder) DaemonEnds {
	e := DaemonEnds{Daemons: r.U32(), Over: r.U32(), Lost: r.U32(), Code: r.Byte(), More: r.U32(), Dropped: r.Sum()}
	e.Failed = frame.DecodeList[FailedDaemon, failedDaemonCodec](r, 6, nil)
	if e.Failed.Len() > MaxFailedDaemons {
		r.Fail(frame.ErrRange)
	}
	return e
}

func (failedDaemonCodec) Encode(w *frame.Encoder, f FailedDaemon) {
	w.U32(f.Number)
	w.Text(f.Host[:min(len(f.Host), MaxDaemonText)])
	w.Byte(byte(f.Status.Kind))
	w.Byte(f.Status.Code)
	w.Bool(f.Status.Core)
	w.Text(f.Cause[:min(len(f.Cause), MaxDaemonText)])
}

func (failedDaemonCodec) Decode(r *frame.Decoder) FailedDaemon {
	f := FailedDaemon{Number: r.U32(), Host: r.TextUpTo(MaxDaemonText)}
	f.Status = job.Status{Kind: job.StatusKind(r.Byte()), Code: r.Byte(), Core: r.Bool()}
	f.Cause = r.TextUpTo(MaxDaemonText)
	if f.Status.Kind > job.Lost {
		r.Fail(frame.ErrRange)
	}
	return f
}
