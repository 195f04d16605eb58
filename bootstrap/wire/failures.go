package wire

import "fmt"

// Failures names ranks that have failed in a job that goes on: up, those of the
// sender's subtree; down and to a rank, those of the whole job. Each rank is named
// once on each link.
type Failures struct{ Ranks SlotSpans }

// Kind is KindFailures.
func (Failures) Kind() Kind { return KindFailures }

func (m Failures) append(w *writer) { appendList(w, m.Ranks) }

func parseFailures(r *reader) Message {
	m := Failures{Ranks: parseSlotSpans(r)}
	if m.Ranks.Len() == 0 {
		r.fail(ErrRange)
	}
	return m
}

func (m Failures) String() string { return fmt.Sprintf("Failures ranks=%d", m.Ranks.Len()) }
