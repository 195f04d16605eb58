package spawn

import (
	"crypto/rand"
	"encoding/binary"
	"strconv"

	"ibrun/internal/job"
)

// pmiPort is the port at which ranks use PMI if --pmi-port is given, instead of the descriptor ControlFD. Each rank
// gets a secret number in PMI_ID. A client sends this number, which identifies its rank.
type pmiPort struct {
	port
	ids map[int]job.Slot // ranks by PMI_ID
}

// open opens the port, and chooses a random PMI_ID for each rank.
func (p *pmiPort) open(n job.Node, events Events) error {
	p.name, p.events = "PMI_PORT", events
	p.received, p.closed = events.CallReceived, events.CallClosed
	ids := map[int]job.Slot{}
	for uint32(len(ids)) < n.Ranks {
		var b [4]byte
		_, _ = rand.Read(b[:]) // never fails: Go ends the program instead
		id := int(binary.LittleEndian.Uint32(b[:]) >> 1)
		if _, taken := ids[id]; !taken {
			ids[id] = n.First + job.Slot(len(ids))
		}
	}
	p.ids = ids
	return p.port.open()
}

// environ returns the variables by which a rank finds the port.
func (p *pmiPort) environ(rank job.Slot) []string {
	for id, r := range p.ids {
		if r == rank {
			return []string{"PMI_PORT=127.0.0.1:" + strconv.Itoa(p.number), "PMI_ID=" + strconv.Itoa(id)}
		}
	}
	return nil
}

// BindID returns the rank whose PMI_ID is id, and binds the connection with the given number to that rank, so that it
// is closed when the rank ends. If this is impossible, refused is the reason that the client must be told.
func (p *pmiPort) BindID(number uint32, id int) (rank job.Slot, refused string) {
	rank, known := p.ids[id]
	switch {
	case !known:
		return 0, "no rank has this PMI_ID"
	case !p.Bind(number, rank):
		return 0, "the call is over"
	}
	return rank, ""
}
