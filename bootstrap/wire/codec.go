package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Limits of the protocol; docs/protocol.md, "Frames".
const (
	MaxFrame = 64 << 20 // bytes after the length
	MaxData  = 32 << 10 // bytes of output or input in one message
)

// What a frame can be refused for.
var (
	ErrShort     = errors.New("frame ends early")
	ErrTrailing  = errors.New("frame has bytes after its end")
	ErrCanonical = errors.New("number is not in its shortest form")
	ErrRange     = errors.New("value is out of range")
	ErrKind      = errors.New("unknown kind of message")
	ErrSize      = errors.New("frame is too long")
)

// writer appends the parts of a payload.
type writer []byte

func (w *writer) byte(b byte)     { *w = append(*w, b) }
func (w *writer) uint(n uint64)   { *w = binary.AppendUvarint(*w, n) }
func (w *writer) u32(n uint32)    { w.uint(uint64(n)) }
func (w *writer) bytes(b []byte)  { w.uint(uint64(len(b))); *w = append(*w, b...) }
func (w *writer) string(s string) { w.uint(uint64(len(s))); *w = append(*w, s...) }
func (w *writer) bool(b bool) {
	if b {
		w.byte(1)
	} else {
		w.byte(0)
	}
}

func (w *writer) strings(list []string) {
	w.uint(uint64(len(list)))
	for _, s := range list {
		w.string(s)
	}
}

// reader takes the parts of a payload. After the first error it returns zero
// values, so that a parser need look once, at the end.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.rest = nil
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.fail(ErrShort)
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) uint(most uint64) uint64 {
	n, size := binary.Uvarint(r.rest)
	switch {
	case size == 0:
		r.fail(ErrShort)
		return 0
	case size < 0 || n > most:
		r.fail(ErrRange)
		return 0
	case size > 1 && r.rest[size-1] == 0:
		r.fail(ErrCanonical)
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) u32() uint32 { return uint32(r.uint(math.MaxUint32)) }

func (r *reader) bool() bool {
	b := r.byte()
	if b > 1 {
		r.fail(ErrCanonical)
	}
	return b == 1
}

// bytes returns a part of the frame itself.
func (r *reader) bytes(most int) []byte {
	n := r.uint(uint64(most))
	if n > uint64(len(r.rest)) {
		r.fail(ErrShort)
		return nil
	}
	if n == 0 {
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) string() string { return string(r.bytes(math.MaxInt32)) }

// count reads the number of elements that follow, each of which takes at least
// least bytes: what cannot be there is refused before anything is allocated.
func (r *reader) count(least int) int {
	n := r.uint(math.MaxUint32)
	if n*uint64(least) > uint64(len(r.rest)) {
		r.fail(ErrShort)
		return 0
	}
	return int(n)
}

func (r *reader) strings() []string {
	n := r.count(1)
	if n == 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = r.string()
	}
	return list
}

// Append adds the frame of m to dst: length, kind, payload. It panics if m is
// not one of this package's messages, or longer than a frame may be: both are
// defects of the sender.
func Append(dst []byte, m Message) []byte {
	at := len(dst)
	w := writer(append(dst, 0, 0, 0, 0, byte(m.Kind())))
	m.append(&w)
	size := len(w) - at - 4
	if size > MaxFrame {
		panic(fmt.Sprintf("wire: %v of %d bytes", m.Kind(), size))
	}
	binary.BigEndian.PutUint32(w[at:], uint32(size))
	return w
}

// Parse reads one frame without its length. What it returns may share memory
// with the frame.
func Parse(frame []byte) (Message, error) {
	r := reader{rest: frame}
	kind := Kind(r.byte())
	parse := parsers[kind]
	if parse == nil {
		if r.err != nil {
			return nil, r.err
		}
		return nil, fmt.Errorf("%w: %d", ErrKind, kind)
	}
	m := parse(&r)
	if r.err != nil {
		return nil, fmt.Errorf("%v: %w", kind, r.err)
	}
	if len(r.rest) > 0 {
		return nil, fmt.Errorf("%v: %w", kind, ErrTrailing)
	}
	return m, nil
}
