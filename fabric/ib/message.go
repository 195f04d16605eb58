package ib

import "encoding/binary"

// kind is what a message on a stream is for.
type kind uint8

const (
	kindReady      kind = 1 // the dialler can receive
	kindData       kind = 2
	kindCredit     kind = 3 // nothing but what each header says
	kindFin        kind = 4 // the last message of this direction
	kindRendezvous kind = 5 // memory to be read in place of bytes
	kindRelease    kind = 6 // it has been read
)

// headSize is the length of a message's header: kind:8 0:8 tag:16 consumed:32.
const headSize = 8

// message is one as it came.
type message struct {
	kind     kind
	tag      uint16
	consumed uint32 // bytes of data that its sender has handed to its reader so far
	body     []byte
}

func (m *message) put(b []byte) int {
	b[0], b[1] = byte(m.kind), 0
	binary.BigEndian.PutUint16(b[2:], m.tag)
	binary.BigEndian.PutUint32(b[4:], m.consumed)
	return headSize + copy(b[headSize:], m.body)
}

// parseMessage reads one; its body is part of b.
func parseMessage(b []byte) (m message, ok bool) {
	if len(b) < headSize {
		return m, false
	}
	m = message{kind: kind(b[0]), tag: binary.BigEndian.Uint16(b[2:]), consumed: binary.BigEndian.Uint32(b[4:]),
		body: b[headSize:]}
	return m, b[1] == 0 && m.kind >= kindReady && m.kind <= kindRelease
}

// grant is memory of the other side that may be read.
type grant struct {
	addr uint64
	key  uint32
	left uint64 // bytes that are still to be read
}

const grantSize = 20

func (g *grant) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, g.addr)
	b = binary.BigEndian.AppendUint32(b, g.key)
	return binary.BigEndian.AppendUint64(b, g.left)
}

func parseGrant(b []byte) (*grant, bool) {
	if len(b) != grantSize {
		return nil, false
	}
	g := &grant{addr: binary.BigEndian.Uint64(b), key: binary.BigEndian.Uint32(b[8:]),
		left: binary.BigEndian.Uint64(b[12:])}
	return g, g.left > 0
}
