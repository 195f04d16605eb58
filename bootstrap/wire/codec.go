package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"

	"ibrun/job"
)

// Limits of the protocol; docs/protocol.md, "Frames".
const (
	MaxFrame = 64 << 20 // bytes after the length
	MaxData  = 32 << 10 // bytes of output or input in one message

	// A message takes at most twice the bytes of its frame and one of these besides.
	slack     = 4 << 10
	onceSlack = 8 << 20 // of those that come once: words of the size that a system call takes are headers for the most part
)

// What a frame can be refused for.
var (
	ErrShort     = errors.New("frame ends early")
	ErrTrailing  = errors.New("frame has bytes after its end")
	ErrCanonical = errors.New("number is not in its shortest form")
	ErrRange     = errors.New("value is out of range")
	ErrKind      = errors.New("unknown kind of message")
	ErrSize      = errors.New("frame is too long")
	ErrAgain     = errors.New("a second message of a kind that comes once")
	ErrDense     = errors.New("frame has more small parts than it may")
)

// writer appends the parts of a payload.
type writer []byte

func (w *writer) byte(b byte)     { *w = append(*w, b) }
func (w *writer) uint(n uint64)   { *w = binary.AppendUvarint(*w, n) }
func (w *writer) u32(n uint32)    { w.uint(uint64(n)) }
func (w *writer) slot(s job.Slot) { w.u32(uint32(s)) }

func (w *writer) node(n job.NodeIndex) { w.u32(uint32(n)) }

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
	room int // bytes that the message may still take besides its frame
	err  error
}

// charge counts memory that a message takes besides its frame.
func (r *reader) charge(n int) {
	if r.room -= n; r.room < 0 {
		r.fail(ErrDense)
	}
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

func (r *reader) u32() uint32         { return uint32(r.uint(math.MaxUint32)) }
func (r *reader) rank() job.Rank      { return job.Rank(r.u32()) }
func (r *reader) slot() job.Slot      { return job.Slot(r.u32()) }
func (r *reader) node() job.NodeIndex { return job.NodeIndex(r.u32()) }

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

func (r *reader) string() string { return r.text(math.MaxInt32) }

// text is a string of at most so many bytes.
func (r *reader) text(most int) string {
	b := r.bytes(most)
	if r.charge((len(b) + wordSize - 1) &^ (wordSize - 1)); r.err != nil {
		return ""
	}
	return string(b)
}

// wordSize is what the allocator rounds up to, in bytes; the smallest that it has.
const wordSize = 8

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

func (r *reader) strings() []string { return collect(r, 1, r.string) }

// collect reads a list that is wanted as a slice. What stays in frames for long,
// or has many elements, is a List instead.
func collect[T any](r *reader, least int, one func() T) []T {
	n := r.count(least)
	r.charge(n * int(reflect.TypeFor[T]().Size()))
	if n == 0 || r.err != nil {
		return nil
	}
	list := make([]T, n)
	for i := 0; i < n && r.err == nil; i++ {
		list[i] = one()
	}
	return list
}

// Append adds the frame of m to dst: length, kind, payload. It panics if m is
// not one of this package's messages, or longer than a frame may be: both are
// defects of the sender.
func Append(dst []byte, m Message) []byte {
	frame, err := appendFrame(dst, m)
	if err != nil {
		panic("wire: " + err.Error())
	}
	return frame
}

func appendFrame(dst []byte, m Message) ([]byte, error) {
	at := len(dst)
	w := writer(append(dst, 0, 0, 0, 0, byte(m.Kind())))
	m.append(&w)
	size := len(w) - at - 4
	if size > MaxFrame {
		return nil, fmt.Errorf("%w: %v of %d bytes", ErrSize, m.Kind(), size)
	}
	binary.BigEndian.PutUint32(w[at:], uint32(size))
	return w, nil
}

// Check says why nobody would take a message, before it is sent: its frame would
// be longer than MaxFrame less spare bytes, or refused.
func Check(m Message, spare int) error {
	frame, err := appendFrame(nil, m)
	if err != nil {
		return err
	}
	if size := len(frame) - 4; size > MaxFrame-spare {
		return fmt.Errorf("%w: %v of %d bytes", ErrSize, m.Kind(), size)
	}
	_, err = Parse(frame[4:])
	return err
}

// Parse reads one frame without its length. What it returns may share memory
// with the frame, and takes no more than that again, and the slack.
func Parse(frame []byte) (Message, error) {
	r := reader{rest: frame, room: len(frame) + slack}
	kind := Kind(r.byte())
	if kinds[kind].once {
		r.room = len(frame) + onceSlack
	}
	parse := kinds[kind].parse
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
