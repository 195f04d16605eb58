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
	ID            uint32   // the requester's number for the question; the answer has it too
	Do            Naming
	Service, Port string
	Wait          bool // of NameLookup: there is no answer before the service has a port
	Once          bool // of NamePublish: the first lookup takes the port away
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

// Limits of a Name in bytes.
const (
	maxService = 1 << 10 // PMI has no longer lines
	MaxPort    = 1 << 16
)

func (Name) Kind() frame.Kind { return KindName }

func (m Name) Encode(w *frame.Encoder) {
	w.U32(uint32(m.Rank))
	w.U32(m.ID)
	w.Byte(byte(m.Do))
	w.Text(m.Service)
	w.Text(m.Port)
	w.Bool(m.Wait)
	w.Bool(m.Once)
	w.Bool(m.Done)
}

func parseName(r *frame.Decoder) frame.Message {
	m := Name{
		Rank: job.Slot(r.U32()), ID: r.U32(), Do: Naming(r.Byte()),
		Service: r.TextUpTo(maxService), Port: r.TextUpTo(MaxPort), Wait: r.Bool(), Once: r.Bool(), Done: r.Bool(),
	}
	if m.Do >= namings || m.Wait && m.Do != NameLookup || m.Once && m.Do != NamePublish {
		r.Fail(frame.ErrRange)
	}
	return m
}

func (m Name) String() string {
	return fmt.Sprintf("Name rank=%d id=%d do=%d %q wait=%t once=%t done=%t",
		m.Rank, m.ID, m.Do, m.Service, m.Wait, m.Once, m.Done)
}
