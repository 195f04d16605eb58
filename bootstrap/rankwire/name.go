package rankwire

import (
	"fmt"

	"ibrun/bootstrap/frame"
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

func (Name) Kind() frame.Kind { return KindName }

func (m Name) Encode(w *frame.Encoder) {
	w.U32(uint32(m.Rank))
	w.Byte(byte(m.Do))
	w.Text(m.Service)
	w.Text(m.Port)
	w.Bool(m.Done)
}

func parseName(r *frame.Decoder) frame.Message {
	m := Name{
		Rank: job.Slot(r.U32()), Do: Naming(r.Byte()),
		Service: r.TextUpTo(maxName), Port: r.TextUpTo(maxName), Done: r.Bool(),
	}
	if m.Do >= namings {
		r.Fail(frame.ErrRange)
	}
	return m
}

func (m Name) String() string {
	return fmt.Sprintf("Name rank=%d do=%d %q done=%t", m.Rank, m.Do, m.Service, m.Done)
}
