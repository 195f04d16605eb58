package wire

import (
	"fmt"

	"ibrun/job"
)

// Name is a question to the root's table of named ports (MPI's name service) on
// its way up, and the answer on its way back to the rank.
type Name struct {
	Rank          job.Slot // which asks
	Do            Naming
	Service, Port string
	Done          bool // in the answer: published, taken back, found
}

// Naming is what a Name wants.
type Naming uint8

const (
	NamePublish   Naming = iota // fails if the service has a port already
	NameUnpublish               // fails if it has none
	NameLookup                  // the answer has the port
	namings
)

// maxName is the most bytes of a service or port: PMI has no longer lines.
const maxName = 1 << 10

func (Name) Kind() Kind { return KindName }

func (m Name) append(w *writer) {
	w.slot(m.Rank)
	w.byte(byte(m.Do))
	w.string(m.Service)
	w.string(m.Port)
	w.bool(m.Done)
}

func parseName(r *reader) Message {
	m := Name{Rank: r.slot(), Do: Naming(r.byte()), Service: r.text(maxName), Port: r.text(maxName), Done: r.bool()}
	if m.Do >= namings {
		r.fail(ErrRange)
	}
	return m
}

func (m Name) String() string {
	return fmt.Sprintf("Name rank=%d do=%d %q done=%t", m.Rank, m.Do, m.Service, m.Done)
}
