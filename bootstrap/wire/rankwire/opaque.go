package rankwire

import (
	"ibrun/bootstrap/wire/frame"
	"ibrun/fabric"
	"ibrun/internal/job"
)

// slotsInOrder returns a function that checks the order of one list of SlotSpans. The function must be called with each
// span in turn.
func slotsInOrder() func(SlotSpan) error {
	check := frame.InOrder(job.MaxRanks)
	return func(s SlotSpan) error { return check(uint32(s.First), s.Count) }
}

// spawnable returns a function that checks the programs of one SpawnJob. The function must be called with each program
// in turn, because it adds up their ranks.
func spawnable() func(Command) error {
	total := uint64(0)
	return func(c Command) error {
		if total += uint64(c.Ranks); c.Argv.Len() == 0 || c.Ranks == 0 || total > job.MaxRanks {
			return frame.ErrRange
		}
		return nil
	}
}

// EncodeTuple appends t to w, in the form that package fabric defines.
func EncodeTuple(w *frame.Encoder, t *fabric.Tuple) { w.Bytes(t.Append(nil)) }

// DecodeTuple reads t from r. If it fails, r.Err returns the error.
func DecodeTuple(r *frame.Decoder, t *fabric.Tuple) {
	raw := r.Bytes()
	tuple, n, err := fabric.ParseTuple(raw)
	r.Must(err == nil && n == len(raw))
	*t = tuple
}

// EncodeValues appends the encoded form of v to w.
func EncodeValues(w *frame.Encoder, v *frame.Values) { v.Encode(w) }

// DecodeValues reads v from r. If it fails, r.Err returns the error.
func DecodeValues(r *frame.Decoder, v *frame.Values) {
	*v = frame.DecodeList[[]byte, frame.ValueCodec](r, nil)
}

// EncodeLayout appends the encoded form of l to w.
func EncodeLayout(w *frame.Encoder, l *job.Layout) {
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

// DecodeLayout reads l from r. If it fails, r.Err returns the error.
func DecodeLayout(r *frame.Decoder, l *job.Layout) {
	plane := r.U32()
	nodes, ranks := uint64(0), uint64(0)
	n := r.Count()
	r.Charge((n + 1) * job.ShareSize)
	*l = job.LayoutOf(n, func(yield func(job.Share) bool) {
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
	*l = l.Dealt(plane)
	order := frame.NewSlice[job.Stretch](r)
	for i := range order {
		order[i] = job.Stretch{Node: job.NodeIndex(r.U32()), Nodes: r.U32(), Ranks: r.U32()}
	}
	r.Charge(len(order) * job.StretchSize)
	if len(order) == 0 || r.Err() != nil {
		return
	}
	ordered, ok := l.Ordered(order)
	if !ok || plane != 0 {
		r.Fail(frame.ErrCanonical)
	}
	*l = ordered
}
