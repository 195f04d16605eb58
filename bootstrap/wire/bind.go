package wire

import (
	"fmt"
	"slices"

	"ibrun/job"
)

// Steal asks a child that is slow to return half of the nodes that it has
// not begun. It answers with Return, or not if there are none.
type Steal struct{}

// Return gives nodes to the parent: from then on they are the parent's to start.
type Return struct {
	Part   job.Part
	Barren bool   // the sender could reach no node at all
	Phase  string // in which the session to the first of them failed
	Cause  string // of that; empty: nobody has tried
}

// Settled says which nodes take part in the job for good, so that ranks may start.
type Settled struct {
	FirstHost string    // host of rank 0
	Dropped   NodeSpans // nodes that the job goes on without
}

// NodeSpan is the nodes [First, First+Count) of a job.
type NodeSpan struct {
	First job.NodeIndex
	Count uint32
}

// SlotSpan is the slots [First, First+Count) of a job.
type SlotSpan struct {
	First job.Slot
	Count uint32
}

// End is the node after the last one.
func (s NodeSpan) End() job.NodeIndex { return s.First + job.NodeIndex(s.Count) }

// End is the slot after the last one.
func (s SlotSpan) End() job.Slot { return s.First + job.Slot(s.Count) }

func (Steal) Kind() Kind   { return KindSteal }
func (Return) Kind() Kind  { return KindReturn }
func (Settled) Kind() Kind { return KindSettled }

func (Steal) append(*writer) {}

func (m Return) append(w *writer) {
	appendPart(w, m.Part)
	w.bool(m.Barren)
	w.userText(m.Phase)
	w.userText(m.Cause)
}

func (m Settled) append(w *writer) {
	w.string(m.FirstHost)
	appendList(w, m.Dropped)
}

// NewNodeSpans packs spans of nodes.
func NewNodeSpans(spans ...NodeSpan) NodeSpans {
	return listOf[NodeSpan, nodeSpanCodec](slices.Values(spans))
}

// NewSlotSpans packs spans of slots.
func NewSlotSpans(spans ...SlotSpan) SlotSpans {
	return listOf[SlotSpan, slotSpanCodec](slices.Values(spans))
}

// inOrder returns a check of spans that come one after the other: they are in order, do not touch,
// and end at most at limit.
func inOrder(limit uint64) func(first, count uint32) error {
	next, begun := uint64(0), false
	return func(first, count uint32) error {
		if count == 0 || uint64(first) < next || begun && uint64(first) == next {
			return ErrCanonical
		}
		begun = true
		if next = uint64(first) + uint64(count); next > limit {
			return ErrRange
		}
		return nil
	}
}

func parseNodeSpans(r *reader) NodeSpans {
	check := inOrder(job.MaxNodes)
	return parseList[NodeSpan, nodeSpanCodec](r, 2, func(s NodeSpan) error { return check(uint32(s.First), s.Count) })
}

func parseSlotSpans(r *reader) SlotSpans {
	check := inOrder(job.MaxRanks)
	return parseList[SlotSpan, slotSpanCodec](r, 2, func(s SlotSpan) error { return check(uint32(s.First), s.Count) })
}

func (nodeSpanCodec) append(w *writer, s NodeSpan) {
	w.node(s.First)
	w.u32(s.Count)
}

func (nodeSpanCodec) read(r *reader) NodeSpan { return NodeSpan{First: r.node(), Count: r.u32()} }

func (slotSpanCodec) append(w *writer, s SlotSpan) {
	w.slot(s.First)
	w.u32(s.Count)
}

func (slotSpanCodec) read(r *reader) SlotSpan { return SlotSpan{First: r.slot(), Count: r.u32()} }

func parseSteal(*reader) Message { return Steal{} }

func parseReturn(r *reader) Message {
	return Return{Part: parsePart(r), Barren: r.bool(), Phase: r.userText(), Cause: r.userText()}
}

func parseSettled(r *reader) Message {
	return Settled{FirstHost: r.string(), Dropped: parseNodeSpans(r)}
}

func (Steal) String() string { return "Steal" }
func (m Return) String() string {
	return fmt.Sprintf("Return first=%d nodes=%d barren=%t phase=%s cause=%q", m.Part.First, m.Part.Nodes.Len(), m.Barren, m.Phase, m.Cause)
}
func (m Settled) String() string {
	return fmt.Sprintf("Settled first host=%s dropped=%d", m.FirstHost, m.Dropped.Len())
}
