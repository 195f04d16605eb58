package wire

import (
	"fmt"

	"ibrun/job"
)

// Failures names ranks that have failed in a job that goes on: up, those of the
// sender's subtree; down and to a rank, those of the whole job. Each rank is named
// once on each link.
type Failures struct{ Ranks []Seats }

// Kind is KindFailures.
func (Failures) Kind() Kind { return KindFailures }

func (m Failures) append(w *writer) { appendSeats(w, m.Ranks) }

func parseFailures(r *reader) Message {
	m := Failures{Ranks: parseSeats(r, job.MaxRanks)}
	if len(m.Ranks) == 0 {
		r.fail(ErrRange)
	}
	return m
}

func (m Failures) String() string { return fmt.Sprintf("Failures ranks=%v", m.Ranks) }

func appendSeats(w *writer, list []Seats) {
	w.uint(uint64(len(list)))
	for _, s := range list {
		w.u32(s.First)
		w.u32(s.Count)
	}
}

// parseSeats reads stretches that are in order and do not touch, below most.
func parseSeats(r *reader, most uint64) (list []Seats) {
	next := uint64(0)
	for i := range r.count(2) {
		s := Seats{First: r.u32(), Count: r.u32()}
		if s.Count == 0 || uint64(s.First) < next || i > 0 && uint64(s.First) == next {
			r.fail(ErrCanonical)
		}
		if next = uint64(s.First) + uint64(s.Count); next > most {
			r.fail(ErrRange)
			return nil
		}
		list = append(list, s)
	}
	return list
}
