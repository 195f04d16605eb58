package charm

import (
	"encoding/binary"
	"errors"

	"ibrun/bootstrap/ccs"
)

// HeaderSize is the size in bytes of the header in the frames ReqFw and ReplyFw. The last number of the header is the
// size of the request's data in bytes. In ReplyFw it is 0 if the program has no reply.
const HeaderSize = 4 + 4 + 4 + 1 + 1 + ccs.MaxHandler + 4 + 4 + 4

// Forward encodes q as a frame ReqFw. The program repeats the number reply in its frame ReplyFw.
func Forward(q ccs.Request, reply uint32) []byte {
	b := Append(nil, ReqFw, HeaderSize+len(q.Data))
	b = append(b, 127, 0, 0, 1) // the client's address, which is its agent
	b = append(b, make([]byte, 4+4+1+1)...)
	var handler [ccs.MaxHandler]byte
	copy(handler[:], q.Handler)
	b = append(b, handler[:]...)
	size := len(q.Data)
	if q.PE < -1 {
		size += 4 * int(q.PE) // without the list of PEs
	}
	for _, w := range []uint32{uint32(q.PE), reply, uint32(size)} {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return append(b, q.Data...)
}

// ErrReply is an error of ParseReply.
var ErrReply = errors.New("a reply without a header")

// ParseReply parses the data of a frame ReplyFw. It returns the number that was passed to Forward, and the reply, which
// is nil if the program has none. It returns ErrReply if data is shorter than the header.
func ParseReply(data []byte) (to uint32, reply []byte, err error) {
	if len(data) < HeaderSize {
		return 0, nil, ErrReply
	}
	to = binary.BigEndian.Uint32(data[HeaderSize-8:])
	if binary.BigEndian.Uint32(data[HeaderSize-4:]) == 0 {
		return to, nil, nil
	}
	return to, data[HeaderSize:], nil
}
