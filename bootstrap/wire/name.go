package wire

import "fmt"

// Name says that a rank has published a port under a service's name (MPI's
// name service), or has taken it back.
type Name struct {
	Service, Port string
	Gone          bool
}

// maxName is the most bytes of a service or port: PMI has no longer lines.
const maxName = 1 << 10

func (Name) Kind() Kind { return KindName }

func (m Name) append(w *writer) {
	w.string(m.Service)
	w.string(m.Port)
	w.bool(m.Gone)
}

func parseName(r *reader) Message {
	return Name{Service: string(r.bytes(maxName)), Port: string(r.bytes(maxName)), Gone: r.bool()}
}

func (m Name) String() string { return fmt.Sprintf("Name %q gone=%t", m.Service, m.Gone) }
