package rankwire

import (
	"fmt"
	"slices"

	"ibrun/bootstrap/frame"
	"ibrun/job"
)

// Failures names ranks that have failed in a job that goes on: up, those of the
// sender's subtree; down and to a rank, those of the whole job. Each rank is named
// once on each link.
type Failures struct{ Ranks SlotSpans }

// SlotSpan is the slots [First, First+Count) of a job.
type SlotSpan struct {
	First job.Slot
	Count uint32
}

// SlotSpans is a list of slots.
type SlotSpans = frame.List[SlotSpan, slotSpanCodec]

type slotSpanCodec struct{}

// End is the slot after the last one.
func (s SlotSpan) End() job.Slot { return s.First + job.Slot(s.Count) }

// Kind is KindFailures.
func (Failures) Kind() frame.Kind { return KindFailures }

func (m Failures) Encode(w *frame.Encoder) { m.Ranks.Encode(w) }

func parseFailures(r *frame.Decoder) frame.Message {
	m := Failures{Ranks: decodeSlotSpans(r)}
	if m.Ranks.Len() == 0 {
		r.Fail(frame.ErrRange)
	}
	return m
}

func (m Failures) String() string { return fmt.Sprintf("Failures ranks=%d", m.Ranks.Len()) }

// NewSlotSpans packs spans of slots.
func NewSlotSpans(spans ...SlotSpan) SlotSpans {
	return frame.ListOf[SlotSpan, slotSpanCodec](slices.Values(spans))
}

func decodeSlotSpans(r *frame.Decoder) SlotSpans {
	check := frame.InOrder(job.MaxRanks)
	return frame.DecodeList[SlotSpan, slotSpanCodec](r, 2, func(s SlotSpan) error {
		return check(uint32(s.First), s.Count)
	})
}

func (slotSpanCodec) Encode(w *frame.Encoder, s SlotSpan) {
	w.U32(uint32(s.First))
	w.U32(s.Count)
}

func (slotSpanCodec) Decode(r *frame.Decoder) SlotSpan {
	return SlotSpan{First: job.Slot(r.U32()), Count: r.U32()}
}
