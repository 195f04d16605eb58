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

// headSize is the length of a header, which all but data have: kind:8 0:8 tag:16 consumed:32.
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
	return m, b[1] == 0 && m.kind >= kindReady && m.kind <= kindRelease && m.kind != kindData
}

// consumedUnit is what the bytes read are counted in where there are 16 bits for them. What is
// under way is at most mostWindow, half of the circle.
const consumedUnit = 512

// immediate says what a header would, of a message of data: tag:16 consumed:16, in units. So what
// the application sends fills packets, and no packet is sent for a header of ours alone.
func (m *message) immediate() uint32 {
	return uint32(m.tag)<<16 | m.consumed/consumedUnit&0xffff
}

// withImmediate is one of data. last is how much its sender has said before that it had
// handed to its reader.
func withImmediate(immediate, last uint32, body []byte) message {
	units := last / consumedUnit
	units += uint32(uint16(immediate) - uint16(units))
	return message{kind: kindData, tag: uint16(immediate >> 16), consumed: units * consumedUnit, body: body}
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
