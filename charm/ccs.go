package charm

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// A client asks a processing element (PE) of a program by the name of a handler: CCS, "Converse
// client-server".

const (
	// HeaderSize is the bytes of what goes before a request to a program, and comes back before its
	// reply. Its last number is the length of a request's data; of a reply it is 0 if there is
	// none.
	HeaderSize = 4 + 4 + 4 + 1 + 1 + maxHandler + 4 + 4 + 4
	// RequestSize is the bytes of a client's request before its data.
	RequestSize = 4 + 4 + maxHandler
	// MaxRequest is how many bytes of data a request may have, with its list of PEs.
	MaxRequest = 1 << 20
	// MaxReply is the same of a reply.
	MaxReply = 16 << 20

	maxHandler = 32
)

// InfoHandler is answered by whoever has the table: the processes, and the PEs of each.
const InfoHandler = "ccs_getinfo"

// Request is a client's.
type Request struct {
	Handler string
	PE      int32  // -1: all; -k: those of a list of k, which Data begins with
	Data    []byte // with the list
}

// Errors of requests.
var (
	ErrTooLong = errors.New("a request has at most 1 MiB")
	ErrHandler = errors.New("a handler's name has 1 to 31 bytes, and none of them is NUL")
	ErrList    = errors.New("a request to several PEs begins with their list")
)

// ParseRequest reads the head of a request; rest is how many bytes follow it.
func ParseRequest(head [RequestSize]byte) (q Request, rest int, err error) {
	size := binary.BigEndian.Uint32(head[:])
	q.PE = int32(binary.BigEndian.Uint32(head[4:]))
	name, _, ended := bytes.Cut(head[8:], []byte{0})
	q.Handler = string(name)
	if !ended {
		return q, 0, ErrHandler
	}
	list := uint64(0)
	if q.PE < -1 {
		list = 4 * uint64(-int64(q.PE))
	}
	if uint64(size)+list > MaxRequest {
		return q, 0, ErrTooLong
	}
	return q, int(uint64(size) + list), nil
}

// Check says what is wrong with a request.
func (q Request) Check() error {
	switch {
	case q.Handler == "" || len(q.Handler) >= maxHandler || bytes.IndexByte([]byte(q.Handler), 0) >= 0:
		return ErrHandler
	case len(q.Data) > MaxRequest:
		return ErrTooLong
	case q.PE < -1 && int64(len(q.Data)) < -4*int64(q.PE):
		return ErrList
	}
	return nil
}

// First is the PE that gets a request, and passes it on if it is for several.
func (q Request) First() int32 {
	switch {
	case q.PE == -1:
		return 0
	case q.PE < -1:
		return int32(binary.BigEndian.Uint32(q.Data))
	}
	return q.PE
}

// Forward is the frame ReqFw of a request, whose reply names a number.
func (q Request) Forward(reply uint32) []byte {
	b := Append(nil, ReqFw, HeaderSize+len(q.Data))
	b = append(b, 127, 0, 0, 1) // the client's address, which is its agent
	b = append(b, make([]byte, 4+4+1+1)...)
	var handler [maxHandler]byte
	copy(handler[:], q.Handler)
	b = append(b, handler[:]...)
	size := len(q.Data)
	if q.PE < -1 {
		size += 4 * int(q.PE) // the list does not count
	}
	for _, w := range []uint32{uint32(q.PE), reply, uint32(size)} {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return append(b, q.Data...)
}

// ErrReply is an error of ParseReply.
var ErrReply = errors.New("a reply without a header")

// ParseReply reads the data of ReplyFw: whom it is for, and the reply, which goes to its end.
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

// Census is the answer to InfoHandler.
func Census(pes []uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(pes)))
	for _, n := range pes {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

// ParseCensus reads what Census writes.
func ParseCensus(b []byte) (pes []uint32, ok bool) {
	if len(b) < 4 || len(b)%4 != 0 || uint64(binary.BigEndian.Uint32(b)) != uint64(len(b)/4-1) {
		return nil, false
	}
	for b = b[4:]; len(b) > 0; b = b[4:] {
		pes = append(pes, binary.BigEndian.Uint32(b))
	}
	return pes, true
}
