package wire

import (
	"fmt"
	"iter"
	"time"

	"ibrun/bootstrap/frame"
	"ibrun/job"
)

// MaxTimes bounds the nodes of one Times, so that it stays a frame.
const MaxTimes = 1 << 18

// Times is how the launch of a subtree went: sent at once before Ready, and
// only if the job wants to know. Its times have a resolution of a microsecond.
type Times struct {
	Span    time.Duration // from when the sender got its Launch until it sent this
	Missing uint32        // nodes that were left out
	Nodes   Timings       // the sender's own first; at most MaxTimes
}

// Timings are the times of nodes.
type Timings = frame.List[job.NodeTimes, timingCodec]

type timingCodec struct{}

func (Times) Kind() frame.Kind { return KindTimes }

func (m Times) Encode(w *frame.Encoder) {
	encodeTime(w, m.Span)
	w.U32(m.Missing)
	m.Nodes.Encode(w)
}

// NewTimings packs the times of nodes.
func NewTimings(nodes iter.Seq[job.NodeTimes]) Timings {
	return frame.ListOf[job.NodeTimes, timingCodec](nodes)
}

func (timingCodec) Encode(w *frame.Encoder, n job.NodeTimes) {
	w.U32(uint32(n.Node))
	w.U32(uint32(n.Parent))
	w.Bool(n.Local)
	for _, at := range n.At {
		encodeTime(w, at)
	}
	encodeTime(w, n.CPU)
	encodeTime(w, n.Error)
}

func (timingCodec) Decode(r *frame.Decoder) job.NodeTimes {
	t := job.NodeTimes{Node: job.NodeIndex(r.U32()), Parent: job.NodeIndex(r.U32()), Local: r.Bool()}
	for k := range t.At {
		t.At[k] = decodeTime(r)
	}
	t.CPU, t.Error = decodeTime(r), decodeTime(r)
	return t
}

// mostTime is longer than any launch takes, 17 years, and so short that sums of
// it are times.
const mostTime = 1 << 49 * time.Microsecond

// encodeTime writes 0 for never, and one microsecond more for all else.
func encodeTime(w *frame.Encoder, t time.Duration) {
	if t < 0 {
		w.Uint(0)
		return
	}
	w.Uint(uint64(min(t, mostTime)/time.Microsecond) + 1)
}

func decodeTime(r *frame.Decoder) time.Duration {
	n := r.Uint(uint64(mostTime/time.Microsecond) + 1)
	if n == 0 {
		return job.Never
	}
	return time.Duration(n-1) * time.Microsecond
}

func parseTimes(r *frame.Decoder) frame.Message {
	m := Times{Span: decodeTime(r), Missing: r.U32()}
	m.Nodes = frame.DecodeList[job.NodeTimes, timingCodec](r, int(job.Moments)+5, func(t job.NodeTimes) error {
		if t.CPU < 0 || t.Error < 0 {
			return frame.ErrRange
		}
		return nil
	})
	if n := m.Nodes.Len(); n == 0 || n > MaxTimes || m.Span < 0 {
		r.Fail(frame.ErrRange)
	}
	return m
}

func (m Times) String() string {
	return fmt.Sprintf("Times nodes=%d missing=%d span=%v", m.Nodes.Len(), m.Missing, m.Span)
}
