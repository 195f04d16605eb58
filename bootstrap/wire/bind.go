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

// Settled says that no seat will change its node any more, so that ranks may start.
type Settled struct {
	FirstHost string // host of rank 0
	Dropped   SeatList
}

// Seats are nodes or ranks of a job that follow each other, by their index.
type Seats struct{ First, Count uint32 }

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

// NewSeatList packs seats.
func NewSeatList(seats ...Seats) SeatList { return listOf[Seats, seatsCodec](slices.Values(seats)) }

// parseSeats reads stretches that are in order and do not touch, below most.
func parseSeats(r *reader, most uint64) SeatList {
	next, first := uint64(0), true
	return parseList[Seats, seatsCodec](r, 2, func(s Seats) error {
		if s.Count == 0 || uint64(s.First) < next || !first && uint64(s.First) == next {
			return ErrCanonical
		}
		first = false
		if next = uint64(s.First) + uint64(s.Count); next > most {
			return ErrRange
		}
		return nil
	})
}

func (seatsCodec) append(w *writer, s Seats) {
	w.u32(s.First)
	w.u32(s.Count)
}

func (seatsCodec) read(r *reader) Seats { return Seats{First: r.u32(), Count: r.u32()} }

func parseSteal(*reader) Message { return Steal{} }

func parseReturn(r *reader) Message {
	return Return{Part: parsePart(r), Barren: r.bool(), Phase: r.userText(), Cause: r.userText()}
}

func parseSettled(r *reader) Message {
	return Settled{FirstHost: r.string(), Dropped: parseSeats(r, job.MaxNodes)}
}

func (Steal) String() string { return "Steal" }
func (m Return) String() string {
	return fmt.Sprintf("Return first=%d nodes=%d barren=%t phase=%s cause=%q", m.Part.First, m.Part.Nodes.Len(), m.Barren, m.Phase, m.Cause)
}
func (m Settled) String() string {
	return fmt.Sprintf("Settled first host=%s dropped=%d", m.FirstHost, m.Dropped.Len())
}
