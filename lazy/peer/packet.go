package peer

import (
	"encoding/binary"

	"ibrun/fabric"
)

// PacketKind says what the body of a datagram is. The numbers are on the wire.
type PacketKind uint8

// The kinds of packet.
const (
	PacketState   PacketKind = iota + 1 // handshake
	PacketReject                        // wrong epoch, or a generation that has ended
	PacketSegment                       // a piece of a message, with an acknowledgement
	PacketAck                           // an acknowledgement alone
	PacketFin                           // the sender would close
	PacketFinAck                        // closed
	PacketFinNak                        // not now
	packetKinds
)

func (k PacketKind) String() string {
	if k >= packetKinds {
		return "unknown"
	}
	return [...]string{"unknown", "STATE", "REJECT", "SEGMENT", "ACK", "FIN", "FINACK", "FINNAK"}[k]
}

// Flags of STATE.
const (
	flagHaveYou = 1 << iota // "I have your address and can receive from you"
	flagAnswer              // "answer me"
	flagsState  = flagHaveYou | flagAnswer
)

// Flags of SEGMENT and ACK.
const (
	flagFirst    = 1 << iota // a message begins
	flagLast                 // a message ends
	flagControl              // it is for the owner, not for the application
	flagBundle               // it is several, for the owner to take apart
	flagsSegment = flagFirst | flagLast | flagControl | flagBundle
	kindFlags    = flagControl | flagBundle
	flagAsk      = 1 // in ACK: "answer with an ACK", for a window that is shut
)

const (
	ring       = 64  // most segments under way, the width of the selective acknowledgement
	leastMTU   = 512 // bytes of body that everybody takes
	stateHead  = 8
	segmentLen = 21 // of a SEGMENT before its payload
)

// packet is any body, parsed. Only the fields of its kind count.
type packet struct {
	kind    PacketKind
	flags   uint8
	window  uint8  // STATE, SEGMENT, ACK: segments the sender of this has room for, 0 to 64
	mtu     uint16 // STATE: bytes of body
	stamp   uint16 // STATE: when it was sent, by its sender's clock; 1 and more
	echo    uint16 // STATE: the stamp of the one that this answers; 0: none
	epoch   uint16 // REJECT: the current epoch, who says so itself
	seq     uint32 // SEGMENT
	ack     uint32 // SEGMENT, ACK: the next segment expected
	attempt uint32 // FIN, FINACK, FINNAK: counts from 1 in each generation
	sack    uint64 // SEGMENT, ACK: bit i says that ack+1+i is here
	held    uint16 // SEGMENT, ACK: since the last segment has come, in units of 16 us, or more
	hold    uint8  // SEGMENT, ACK: how long acknowledgements may wait for a SEGMENT, in units of 4 ms; 0: 3 ms
	count   uint64 // FIN: messages sent in this generation
	tuple   fabric.Tuple
	payload []byte // SEGMENT: part of the body
}

// append adds the body's bytes, numbers big-endian.
func (k *packet) append(b []byte) []byte {
	switch k.kind {
	case PacketState:
		b = append(b, k.flags)
		b = binary.BigEndian.AppendUint16(b, k.mtu)
		b = append(b, k.window)
		b = binary.BigEndian.AppendUint16(b, k.stamp)
		b = binary.BigEndian.AppendUint16(b, k.echo)
		return k.tuple.Append(b)
	case PacketReject:
		b = binary.BigEndian.AppendUint16(b, k.epoch)
		return k.tuple.Append(b)
	case PacketSegment:
		b = binary.BigEndian.AppendUint32(b, k.seq)
		b = k.appendAck(b)
		return append(b, k.payload...)
	case PacketAck:
		return k.appendAck(b)
	case PacketFin:
		b = binary.BigEndian.AppendUint32(b, k.attempt)
		return binary.BigEndian.AppendUint64(b, k.count)
	}
	return binary.BigEndian.AppendUint32(b, k.attempt)
}

func (k *packet) appendAck(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, k.ack)
	b = binary.BigEndian.AppendUint64(b, k.sack)
	b = binary.BigEndian.AppendUint16(b, k.held)
	return append(b, k.hold, k.window, k.flags)
}

// parse reads a body. It takes no byte too many, no unknown flag and no
// number out of its range, so what it takes encodes to the same bytes.
func (k *packet) parse(kind PacketKind, b []byte) bool {
	*k = packet{kind: kind}
	switch kind {
	case PacketState:
		if len(b) < stateHead {
			return false
		}
		k.flags, k.mtu, k.window = b[0], binary.BigEndian.Uint16(b[1:]), b[3]
		k.stamp, k.echo = binary.BigEndian.Uint16(b[4:]), binary.BigEndian.Uint16(b[6:])
		return k.flags&^flagsState == 0 && k.flags != 0 && k.mtu >= leastMTU && k.window <= ring && k.stamp > 0 &&
			k.parseTuple(b[stateHead:]) && k.tuple.Kind != fabric.NONE
	case PacketReject:
		if len(b) < 2 {
			return false
		}
		k.epoch = binary.BigEndian.Uint16(b)
		return k.epoch > 0 && k.parseTuple(b[2:])
	case PacketSegment:
		if len(b) < segmentLen {
			return false
		}
		k.seq = binary.BigEndian.Uint32(b)
		k.parseAck(b[4:])
		k.payload = b[segmentLen:]
		whole := k.flags&(flagFirst|flagLast) == flagFirst|flagLast
		return k.flags&^flagsSegment == 0 && k.flags&kindFlags != kindFlags && k.window <= ring && k.hold <= holdMost &&
			(len(k.payload) > 0 || whole)
	case PacketAck:
		if len(b) != segmentLen-4 {
			return false
		}
		k.parseAck(b)
		return k.flags&^flagAsk == 0 && k.window <= ring && k.hold <= holdMost
	case PacketFin:
		if len(b) != 12 {
			return false
		}
		k.attempt, k.count = binary.BigEndian.Uint32(b), binary.BigEndian.Uint64(b[4:])
		return k.attempt > 0
	case PacketFinAck, PacketFinNak:
		if len(b) != 4 {
			return false
		}
		k.attempt = binary.BigEndian.Uint32(b)
		return k.attempt > 0
	}
	return false
}

func (k *packet) parseAck(b []byte) {
	k.ack, k.sack = binary.BigEndian.Uint32(b), binary.BigEndian.Uint64(b[4:])
	k.held, k.hold, k.window, k.flags = binary.BigEndian.Uint16(b[12:]), b[14], b[15], b[16]
}

func (k *packet) parseTuple(b []byte) bool {
	t, n, err := fabric.ParseTuple(b)
	k.tuple = t
	return err == nil && n == len(b)
}
