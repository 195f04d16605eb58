package wire

import (
	"fmt"
	"math"
	"time"

	"ibrun/job"
)

// MaxTimes bounds the nodes of one Times, so that it stays a frame.
const MaxTimes = 1 << 18

// Times is how the launch of a subtree went: sent at once before Ready, and
// only if the job wants to know. Its times have a resolution of a microsecond.
type Times struct {
	Span    time.Duration   // from when the sender got its Launch until it sent this
	Missing uint32          // nodes that were left out
	Nodes   []job.NodeTimes // the sender's own first; at most MaxTimes
}

func (Times) Kind() Kind { return KindTimes }

func (m Times) append(w *writer) {
	appendTime(w, m.Span)
	w.u32(m.Missing)
	w.uint(uint64(len(m.Nodes)))
	for i := range m.Nodes {
		n := &m.Nodes[i]
		w.u32(n.Node)
		w.u32(n.Parent)
		w.bool(n.Local)
		for _, at := range n.At {
			appendTime(w, at)
		}
		appendTime(w, n.CPU)
		appendTime(w, n.Error)
	}
}

// appendTime writes 0 for never, and one microsecond more for all else.
func appendTime(w *writer, t time.Duration) {
	if t < 0 {
		w.uint(0)
		return
	}
	w.uint(uint64(t/time.Microsecond) + 1)
}

func parseTime(r *reader) time.Duration {
	n := r.uint(math.MaxInt64 / uint64(time.Microsecond))
	if n == 0 {
		return job.Never
	}
	return time.Duration(n-1) * time.Microsecond
}

func parseTimes(r *reader) Message {
	m := Times{Span: parseTime(r), Missing: r.u32()}
	n := r.count(int(job.Moments) + 5)
	if n == 0 || n > MaxTimes || m.Span < 0 {
		r.fail(ErrRange)
		return m
	}
	for range n {
		t := job.NodeTimes{Node: r.u32(), Parent: r.u32(), Local: r.bool()}
		for k := range t.At {
			t.At[k] = parseTime(r)
		}
		t.CPU, t.Error = parseTime(r), parseTime(r)
		if t.CPU < 0 || t.Error < 0 {
			r.fail(ErrRange)
		}
		m.Nodes = append(m.Nodes, t)
	}
	return m
}

func (m Times) String() string {
	return fmt.Sprintf("Times nodes=%d missing=%d span=%v", len(m.Nodes), m.Missing, m.Span)
}
