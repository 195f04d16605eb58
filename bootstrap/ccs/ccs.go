// Package ccs parses, encodes and checks the messages of Converse client-server (CCS). A CCS client sends a request to
// a processing element (PE) of a Charm++ program, and names the handler that replies. A server can require that clients
// prove that they know a key (auth.go). Package charm encodes the frame in which the program receives a request.
//
// The package performs no I/O.
package ccs

import (
	"bytes"
	"encoding/binary"
	"errors"
)

const (
	// MaxHandler is the size in bytes of the field for a handler's name. A name ends with a NUL byte.
	MaxHandler = 32
	// RequestSize is the size in bytes of the fixed part of a request: the size of its data, the PE and the
	// handler.
	RequestSize = 4 + 4 + MaxHandler
	// MaxRequest is the largest size in bytes of the data of a request, including its list of PEs.
	MaxRequest = 1 << 20
	// MaxReply is the largest size in bytes of the data of a reply.
	MaxReply = 16 << 20
)

// InfoHandler is the name of the handler whose reply is a Census. The server of ibrun sends
// this reply itself, so the request does not reach the program.
const InfoHandler = "ccs_getinfo"

// Request is a request of a client to one PE, to a list of PEs, or to all PEs of a program.
type Request struct {
	Handler string
	PE      int32  // number of the PE; -1: all PEs; -k (k > 1): the k PEs in the list with which Data begins
	Data    []byte // the list of PEs, if there is one, and the data for the handler
}

// Errors of requests.
var (
	ErrTooLong = errors.New("a request has at most 1 MiB")
	ErrHandler = errors.New("a handler's name has 1 to 31 bytes, and none of them is NUL")
	ErrList    = errors.New("a request to several PEs begins with their list")
)

// ParseRequest parses the fixed part of a request. It also returns the size in bytes of the data that follows it.
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

// Check returns ErrHandler, ErrTooLong or ErrList if a program could not parse the request.
func (q Request) Check() error {
	switch {
	case q.Handler == "" || len(q.Handler) >= MaxHandler || bytes.IndexByte([]byte(q.Handler), 0) >= 0:
		return ErrHandler
	case len(q.Data) > MaxRequest:
		return ErrTooLong
	case q.PE < -1 && int64(len(q.Data)) < -4*int64(q.PE):
		return ErrList
	}
	return nil
}

// First returns the PE to which the server sends the request. If the request is for several PEs, that PE forwards it.
// The request must have passed Check.
func (q Request) First() int32 {
	switch {
	case q.PE == -1:
		return 0
	case q.PE < -1:
		return int32(binary.BigEndian.Uint32(q.Data))
	}
	return q.PE
}

// Census encodes the reply of InfoHandler: the number of processes, and the number of PEs of each process.
func Census(pes []uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(pes)))
	for _, n := range pes {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

// ParseCensus parses the result of Census and returns the number of PEs of each process.
func ParseCensus(b []byte) (pes []uint32, ok bool) {
	if len(b) < 4 || len(b)%4 != 0 || uint64(binary.BigEndian.Uint32(b)) != uint64(len(b)/4-1) {
		return nil, false
	}
	for b = b[4:]; len(b) > 0; b = b[4:] {
		pes = append(pes, binary.BigEndian.Uint32(b))
	}
	return pes, true
}
