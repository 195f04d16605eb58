package wire

import (
	"fmt"

	"ibrun/job"
)

// Yield asks a child that is slow to hand back half of the nodes that it has
// not begun. It answers with Hand, or not if there are none.
type Yield struct{}

// Hand gives nodes to the parent: from then on they are the parent's to start.
type Hand struct {
	Part   job.Part
	Barren bool   // the sender could reach no node at all
	Phase  string // in which the session to the first of them failed
	Cause  string // of that; empty: nobody has tried
}

// Settled says that no seat will change its node any more, so that ranks may start.
type Settled struct {
	FirstHost string // host of rank 0
	Dropped   []Seats
}

// Seats are nodes or ranks of a job that follow each other, by their index.
type Seats struct{ First, Count uint32 }

func (Yield) Kind() Kind   { return KindYield }
func (Hand) Kind() Kind    { return KindHand }
func (Settled) Kind() Kind { return KindSettled }

func (Yield) append(*writer) {}

func (m Hand) append(w *writer) {
	appendPart(w, m.Part)
	w.bool(m.Barren)
	w.string(m.Phase)
	w.string(m.Cause)
}

func (m Settled) append(w *writer) {
	w.string(m.FirstHost)
	appendSeats(w, m.Dropped)
}

func parseYield(*reader) Message { return Yield{} }

func parseHand(r *reader) Message {
	return Hand{Part: parsePart(r), Barren: r.bool(), Phase: r.string(), Cause: r.string()}
}

func parseSettled(r *reader) Message {
	return Settled{FirstHost: r.string(), Dropped: parseSeats(r, job.MaxNodes)}
}

func (Yield) String() string { return "Yield" }
func (m Hand) String() string {
	return fmt.Sprintf("Hand first=%d nodes=%d barren=%t phase=%s cause=%q", m.Part.First, m.Part.Nodes.Len(), m.Barren, m.Phase, m.Cause)
}
func (m Settled) String() string {
	return fmt.Sprintf("Settled first host=%s dropped=%v", m.FirstHost, m.Dropped)
}
