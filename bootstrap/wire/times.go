package wire

import (
	"fmt"
	"iter"
	"time"

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

func (Times) Kind() Kind { return KindTimes }

func (m Times) append(w *writer) {
	appendTime(w, m.Span)
	w.u32(m.Missing)
	appendList(w, m.Nodes)
}

// NewTimings packs the times of nodes.
func NewTimings(nodes iter.Seq[job.NodeTimes]) Timings {
	return listOf[job.NodeTimes, timingCodec](nodes)
}

func (timingCodec) append(w *writer, n job.NodeTimes) {
	w.node(n.Node)
	w.node(n.Parent)
	w.bool(n.Local)
	for _, at := range n.At {
		appendTime(w, at)
	}
	appendTime(w, n.CPU)
	appendTime(w, n.Error)
}

func (timingCodec) read(r *reader) job.NodeTimes {
	t := job.NodeTimes{Node: r.node(), Parent: r.node(), Local: r.bool()}
	for k := range t.At {
		t.At[k] = parseTime(r)
	}
	t.CPU, t.Error = parseTime(r), parseTime(r)
	return t
}

// mostTime is longer than any launch takes, 17 years, and so short that sums of
// it are times.
const mostTime = 1 << 49 * time.Microsecond

// appendTime writes 0 for never, and one microsecond more for all else.
func appendTime(w *writer, t time.Duration) {
	if t < 0 {
		w.uint(0)
		return
	}
	w.uint(uint64(min(t, mostTime)/time.Microsecond) + 1)
}

func parseTime(r *reader) time.Duration {
	n := r.uint(uint64(mostTime/time.Microsecond) + 1)
	if n == 0 {
		return job.Never
	}
	return time.Duration(n-1) * time.Microsecond
}

func parseTimes(r *reader) Message {
	m := Times{Span: parseTime(r), Missing: r.u32()}
	m.Nodes = parseList[job.NodeTimes, timingCodec](r, int(job.Moments)+5, func(t job.NodeTimes) error {
		if t.CPU < 0 || t.Error < 0 {
			return ErrRange
		}
		return nil
	})
	if n := m.Nodes.Len(); n == 0 || n > MaxTimes || m.Span < 0 {
		r.fail(ErrRange)
	}
	return m
}

func (m Times) String() string {
	return fmt.Sprintf("Times nodes=%d missing=%d span=%v", m.Nodes.Len(), m.Missing, m.Span)
}
