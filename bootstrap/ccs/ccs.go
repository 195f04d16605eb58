// Package ccs has the requests of Converse clients (CCS, "Converse client-server"), which ask a processing
// element (PE) of a program of Charm++ by the name of a handler. It encodes and checks requests, and the
// proof that a client knows a key. It is pure. Package charm encodes what a program sees of a request.
package ccs

import (
	"bytes"
	"encoding/binary"
	"errors"
)

const (
	// MaxHandler is the size of a handler's name in bytes, with the NUL at its end.
	MaxHandler = 32
	// RequestSize is the size of a request in bytes, without its data.
	RequestSize = 4 + 4 + MaxHandler
	// MaxRequest is the largest size of a request's data in bytes, with its list of PEs.
	MaxRequest = 1 << 20
	// MaxReply is the largest size of a reply's data in bytes.
	MaxReply = 16 << 20
)

// InfoHandler is the handler that returns a Census. The server answers it instead of the program.
const InfoHandler = "ccs_getinfo"

// Request is a request of a client.
type Request struct {
	Handler string
	PE      int32  // -1: all PEs; -k: the PEs of a list of k numbers at the beginning of Data
	Data    []byte // with the list
}

// Errors of requests.
var (
	ErrTooLong = errors.New("a request has at most 1 MiB")
	ErrHandler = errors.New("a handler's name has 1 to 31 bytes, and none of them is NUL")
	ErrList    = errors.New("a request to several PEs begins with their list")
)

// ParseRequest parses a request without its data. It also returns the size of the data in bytes, which
// has to be read then.
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

// Check returns an error if a program could not parse the request.
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

// First returns the PE that receives the request. If the request is for several PEs, that PE forwards it.
func (q Request) First() int32 {
	switch {
	case q.PE == -1:
		return 0
	case q.PE < -1:
		return int32(binary.BigEndian.Uint32(q.Data))
	}
	return q.PE
}

// Census encodes the reply of InfoHandler: the number of processes, and of the PEs of each.
func Census(pes []uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(pes)))
	for _, n := range pes {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

// ParseCensus parses the result of Census.
func ParseCensus(b []byte) (pes []uint32, ok bool) {
	if len(b) < 4 || len(b)%4 != 0 || uint64(binary.BigEndian.Uint32(b)) != uint64(len(b)/4-1) {
		return nil, false
	}
	for b = b[4:]; len(b) > 0; b = b[4:] {
		pes = append(pes, binary.BigEndian.Uint32(b))
	}
	return pes, true
}
