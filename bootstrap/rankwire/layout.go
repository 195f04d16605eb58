package rankwire

import (
	"math"

	"ibrun/bootstrap/frame"
	"ibrun/job"
)

// EncodeLayout writes how ranks lie on nodes, for each message that says so.
func EncodeLayout(w *frame.Encoder, l job.Layout) {
	w.U32(l.Plane())
	w.Uint(uint64(l.Len()))
	for s := range l.Shares() {
		w.U32(s.Nodes)
		w.U32(s.Ranks)
	}
	w.Uint(uint64(len(l.Order())))
	for _, s := range l.Order() {
		w.U32(uint32(s.Node))
		w.U32(s.Nodes)
		w.U32(s.Ranks)
	}
}

// DecodeLayout takes what EncodeLayout writes.
func DecodeLayout(r *frame.Decoder) job.Layout {
	plane := r.U32()
	nodes, ranks := uint64(0), uint64(0)
	n := r.Count(2)
	r.Charge((n + 1) * job.ShareSize)
	l := job.LayoutOf(n, func(yield func(job.Share) bool) {
		for range n {
			s := job.Share{Nodes: r.U32(), Ranks: r.U32()}
			nodes, ranks = nodes+uint64(s.Nodes), ranks+uint64(s.Nodes)*uint64(s.Ranks)
			if s.Ranks > job.MaxRanksOnNode || nodes > job.MaxNodes || ranks > job.MaxRanks {
				r.Fail(frame.ErrRange)
			}
			if r.Err() != nil || !yield(s) {
				return
			}
		}
	})
	if r.Err() == nil && l.Len() != n {
		r.Fail(frame.ErrCanonical)
	}
	return decodeOrder(r, l.Dealt(plane))
}

// decodeOrder reads the order of ranks of a layout, if it has one of its own.
func decodeOrder(r *frame.Decoder, l job.Layout) job.Layout {
	order := frame.DecodeSlice(r, 3, func() job.Stretch {
		return job.Stretch{Node: job.NodeIndex(r.U32()), Nodes: r.U32(), Ranks: r.U32()}
	})
	r.Charge(len(order) * job.StretchSize)
	if len(order) == 0 || r.Err() != nil {
		return l
	}
	ordered, ok := l.Ordered(order)
	if !ok || l.Plane() != 0 {
		r.Fail(frame.ErrCanonical)
	}
	return ordered
}

// EncodeTransport writes how ranks reach each other, for each message that says so.
func EncodeTransport(w *frame.Encoder, t job.Transport) {
	w.Text(t.Fabric)
	w.Text(t.Iface)
	w.Bool(t.Eager)
	w.Bool(t.Learn)
	w.Text(t.Why)
	w.Bool(t.Stats)
	w.Bool(t.Verbose)
	w.Byte(t.SL)
	w.Uint(uint64(t.PKey))
	w.Byte(t.GID)
	w.Byte(uint8(t.Poll))
}

// DecodeTransport takes what EncodeTransport writes.
func DecodeTransport(r *frame.Decoder) job.Transport {
	t := job.Transport{
		Fabric: r.Text(), Iface: r.Text(), Eager: r.Bool(), Learn: r.Bool(),
		Why: r.Text(), Stats: r.Bool(), Verbose: r.Bool(), SL: r.Byte(),
		PKey: uint16(r.Uint(math.MaxUint16)), GID: r.Byte(), Poll: job.Poll(r.Byte()),
	}
	if t.SL > job.SLOfPath || t.Poll >= job.Polls {
		r.Fail(frame.ErrRange)
	}
	return t
}
