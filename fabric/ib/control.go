package ib

import (
	"encoding/binary"

	"ibrun/cgo/verbs"
	"ibrun/fabric"
)

// The fabric's own datagrams, which make streams, carry an immediate that the
// table's do not have. Numbers are big-endian.
//
//	call:8 version:8 | cookie:64 nonce:64 | qpn:32 psn:32 window:32 | tag:16 mtu:8 | reply tuple, stream tuple | seal:128
//
// The reply tuple is what the sender publishes. The stream tuple is where its queue pair is: at
// another LID of the port, or at the GID by which its node's routes lead to the other; number 0.
//
// The seal is HMAC-SHA256, cut to 16 bytes, over the receiver's tuple and what stands
// before it. A program without the job's key, on any node of the network, cannot make
// a queue pair or an address handle here, nor learn that there is one.
const (
	controlMark    = 0x69627231 // "ibr1"
	controlVersion = 2
	controlHead    = 2 + 8 + 8 + 4 + 4 + 4 + 2 + 1
	controlSeal    = 16
)

// call is what a control datagram is for.
type call uint8

const (
	connect call = 1 // dialler to listener: a queue pair waits for yours
	accept  call = 2 // answer: here it is
	refuse  call = 3 // answer: there will be none
	abandon call = 4 // dialler to listener: do not wait for me
)

// control is one of those datagrams.
type control struct {
	call   call
	cookie uint64 // from the offer: a dialler knows it only from the listener
	nonce  uint64 // the dialler's, one for each stream
	side   side
	from   fabric.Tuple // of the sender: a queue pair is not connected on a datagram's source address
}

// side is what one end of a stream tells the other.
type side struct {
	qpn, psn uint32
	window   uint32 // bytes that it takes before they are read
	tag      uint16 // that each message to it has to carry
	mtu      verbs.MTU
	at       fabric.Tuple // of its queue pair; Num is 0
}

func (c *control) append(b []byte) []byte {
	b = append(b, byte(c.call), controlVersion)
	b = binary.BigEndian.AppendUint64(b, c.cookie)
	b = binary.BigEndian.AppendUint64(b, c.nonce)
	b = binary.BigEndian.AppendUint32(b, c.side.qpn)
	b = binary.BigEndian.AppendUint32(b, c.side.psn)
	b = binary.BigEndian.AppendUint32(b, c.side.window)
	b = binary.BigEndian.AppendUint16(b, c.side.tag)
	b = append(b, byte(c.side.mtu))
	return c.side.at.Append(c.from.Append(b))
}

// parseControl reads one that fills all of b.
func parseControl(b []byte) (c control, ok bool) {
	if len(b) < controlHead || b[1] != controlVersion {
		return c, false
	}
	c = control{
		call: call(b[0]), cookie: binary.BigEndian.Uint64(b[2:]), nonce: binary.BigEndian.Uint64(b[10:]),
		side: side{
			qpn:    binary.BigEndian.Uint32(b[18:]),
			psn:    binary.BigEndian.Uint32(b[22:]),
			window: binary.BigEndian.Uint32(b[26:]),

			tag: binary.BigEndian.Uint16(b[30:]),
			mtu: verbs.MTU(b[32]),
		},
	}
	b = b[controlHead:]
	var n, m int
	var err error
	if c.from, n, err = fabric.ParseTuple(b); err == nil {
		c.side.at, m, err = fabric.ParseTuple(b[n:])
	}
	numbers := c.side.qpn < 1<<24 && c.side.psn < 1<<24
	sane := c.call == refuse || c.call == abandon || c.side.mtu.Bytes() > 0 && c.side.window >= leastWindow &&
		c.side.window <= mostWindow
	return c, err == nil && n+m == len(b) && c.call >= connect && c.call <= abandon && numbers && sane
}
