package wire

import (
	"fmt"
	"slices"

	"ibrun/bootstrap/frame"
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

// Membership says which nodes take part in the job for good, so that ranks may start.
type Membership struct {
	FirstHost string    // host of rank 0
	Dropped   NodeSpans // nodes that the job goes on without
	Hosts     string    // in place of the job's, without those that are dropped; empty: not known
}

// NodeSpan is the nodes [First, First+Count) of a job.
type NodeSpan struct {
	First job.NodeIndex
	Count uint32
}

// NodeSpans is a list of nodes.
type NodeSpans = frame.List[NodeSpan, nodeSpanCodec]

type nodeSpanCodec struct{}

// End is the node after the last one.
func (s NodeSpan) End() job.NodeIndex { return s.First + job.NodeIndex(s.Count) }

func (Steal) Kind() frame.Kind      { return KindSteal }
func (Return) Kind() frame.Kind     { return KindReturn }
func (Membership) Kind() frame.Kind { return KindMembership }

func (Steal) Encode(*frame.Encoder) {}

func (m Return) Encode(w *frame.Encoder) {
	encodePart(w, m.Part)
	w.Bool(m.Barren)
	w.UserText(m.Phase)
	w.UserText(m.Cause)
}

func (m Membership) Encode(w *frame.Encoder) {
	w.Text(m.FirstHost)
	m.Dropped.Encode(w)
	w.Text(m.Hosts)
}

// NewNodeSpans packs spans of nodes.
func NewNodeSpans(spans ...NodeSpan) NodeSpans {
	return frame.ListOf[NodeSpan, nodeSpanCodec](slices.Values(spans))
}

func decodeNodeSpans(r *frame.Decoder) NodeSpans {
	check := frame.InOrder(job.MaxNodes)
	return frame.DecodeList[NodeSpan, nodeSpanCodec](r, 2,
		func(s NodeSpan) error { return check(uint32(s.First), s.Count) })
}

func (nodeSpanCodec) Encode(w *frame.Encoder, s NodeSpan) {
	w.U32(uint32(s.First))
	w.U32(s.Count)
}

func (nodeSpanCodec) Decode(r *frame.Decoder) NodeSpan {
	return NodeSpan{First: job.NodeIndex(r.U32()), Count: r.U32()}
}

func parseSteal(*frame.Decoder) frame.Message { return Steal{} }

func parseReturn(r *frame.Decoder) frame.Message {
	return Return{Part: decodePart(r), Barren: r.Bool(), Phase: r.UserText(), Cause: r.UserText()}
}

func parseMembership(r *frame.Decoder) frame.Message {
	return Membership{FirstHost: r.Text(), Dropped: decodeNodeSpans(r), Hosts: r.Text()}
}

func (Steal) String() string { return "Steal" }
func (m Return) String() string {
	return fmt.Sprintf("Return first=%d nodes=%d barren=%t phase=%s cause=%q", m.Part.First, m.Part.Nodes.Len(),
		m.Barren, m.Phase, m.Cause)
}
func (m Membership) String() string {
	return fmt.Sprintf("Membership first host=%s dropped=%d", m.FirstHost, m.Dropped.Len())
}
