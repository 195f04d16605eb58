package peer

import (
	"encoding/binary"

	"ibrun/fabric"
)

// PacketKind is the kind of a packet. It determines the format of the body. Its values are sent over the network.
type PacketKind uint8

// The kinds of packet.
const (
	PacketState   PacketKind = iota + 1 // handshake: asks for a connection or confirms it
	PacketReject                        // answer to a packet of an older epoch or of a generation that has ended
	PacketSegment                       // part of a message, with an acknowledgement
	PacketAck                           // acknowledgement without data
	PacketFin                           // asks the receiver to close the connection
	PacketFinAck                        // answer to FIN: the connection is closed
	PacketFinNak                        // answer to FIN: the connection stays open
	packetKinds                         // number of kinds, plus 1
)

func (k PacketKind) String() string {
	if k >= packetKinds {
		return "unknown"
	}
	return [...]string{"unknown", "STATE", "REJECT", "SEGMENT", "ACK", "FIN", "FINACK", "FINNAK"}[k]
}

// Flags of STATE.
const (
	flagHaveYou = 1 << iota // the sender has the address of the receiver and can receive from it
	flagAnswer              // the sender asks for a STATE in answer
	flagsState  = flagHaveYou | flagAnswer
)

// Flags of SEGMENT and ACK.
const (
	flagFirst    = 1 << iota // the segment begins a message
	flagLast                 // the segment ends a message
	flagControl              // the message is a control message of the upgrade
	flagBundle               // the message is a bundle; see CutBundled
	flagsSegment = flagFirst | flagLast | flagControl | flagBundle
	kindFlags    = flagControl | flagBundle
	flagAsk      = 1 // in ACK: the sender asks for an ACK in answer
)

const (
	ring       = 64  // maximum number of segments in flight, and number of bits of packet.sack
	leastMTU   = 512 // minimum of packet.mtu in bytes
	stateHead  = 8   // bytes of a STATE before its tuple
	segmentLen = 21  // bytes of a SEGMENT before its payload
)

// packet is the parsed body of a packet of any kind. The comment of a field lists the kinds that use it.
type packet struct {
	kind    PacketKind
	flags   uint8
	window  uint8        // STATE, SEGMENT, ACK: receive window of the sender in segments, 0 to 64
	mtu     uint16       // STATE: maximum size in bytes of a body that the sender accepts
	stamp   uint16       // STATE: time of sending on the sender's clock, 1 or more; see stamp
	echo    uint16       // STATE: stamp of the STATE that this one answers, or 0
	epoch   uint16       // REJECT: current epoch of the sender
	seq     uint32       // SEGMENT: number of the segment in its direction
	ack     uint32       // SEGMENT, ACK: number of the next segment that the sender expects
	attempt uint32       // FIN, FINACK, FINNAK: number of the attempt to close, from 1 in each generation
	sack    uint64       // SEGMENT, ACK: bit i is set if the sender has received segment ack+1+i
	held    uint16       // SEGMENT, ACK: time since the sender received a segment, in heldUnit, limited to the maximum
	hold    uint8        // SEGMENT, ACK: maximum delay of acknowledgements, in holdUnit; 0 means longAckDelay
	count   uint64       // FIN: number of messages that the sender has sent in this generation
	tuple   fabric.Tuple // STATE, REJECT: address of the sender; in REJECT its Kind may be NONE
	payload []byte       // SEGMENT: part of a message; shares memory with the parsed body
}

// append appends the encoded body to b. Numbers are big-endian.
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

// parse decodes a body. It returns false if the body has surplus bytes, an unknown flag, or a number out of its range.
// So append encodes a parsed packet to the same bytes.
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
