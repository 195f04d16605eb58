package frame

import (
	"cmp"
	"encoding/binary"
	"math"
	"reflect"
	"time"
)

// Encoder appends the parts of a payload.
type Encoder []byte

// Byte writes a byte as it is.
func (w *Encoder) Byte(b byte) { *w = append(*w, b) }

// Uint writes a number in its shortest form.
func (w *Encoder) Uint(n uint64) { *w = binary.AppendUvarint(*w, n) }

// U32 is Uint for numbers of 32 bits.
func (w *Encoder) U32(n uint32) { w.Uint(uint64(n)) }

// U16 writes a number of 16 bits in its shortest form.
func (w *Encoder) U16(n uint16) { w.Uint(uint64(n)) }

// U64 is Uint under the name that generated code expects for a number of 64 bits.
func (w *Encoder) U64(n uint64) { w.Uint(n) }

// Next writes n+1. If n is 1<<32-1, which stands for no value, n+1 overflows to 0, which takes one byte.
func (w *Encoder) Next(n uint32) { w.U32(n + 1) }

// Time writes the number of whole microseconds in t, plus 1. A t above maxTime is written as maxTime. A negative t
// stands for an event that has not happened and is written as 0.
func (w *Encoder) Time(t time.Duration) {
	if t < 0 {
		w.Uint(0)
		return
	}
	w.Uint(uint64(min(t, maxTime)/time.Microsecond) + 1)
}

// maxTime is 17 years, so that the sum of several times does not overflow a time.Duration.
const maxTime = 1 << 49 * time.Microsecond

// Sum writes a sum, which stops at the most that a signed number of 64 bits can be.
func (w *Encoder) Sum(n uint64) { w.Uint(min(n, math.MaxInt64)) }

// Raw writes bytes whose number the other end knows.
func (w *Encoder) Raw(b []byte) { *w = append(*w, b...) }

// Bytes writes a length and the bytes.
func (w *Encoder) Bytes(b []byte) {
	w.Uint(uint64(len(b)))
	*w = append(*w, b...)
}

// Text writes a length and the bytes of a text.
func (w *Encoder) Text(s string) {
	w.Uint(uint64(len(s)))
	*w = append(*w, s...)
}

// MaxUserText is the maximum length of a text for the user, in bytes.
const MaxUserText = 16 << 10

// Bool writes a flag.
func (w *Encoder) Bool(b bool) {
	if b {
		w.Byte(1)
	} else {
		w.Byte(0)
	}
}

// Texts writes a count and so many texts.
func (w *Encoder) Texts(list []string) {
	w.Uint(uint64(len(list)))
	for _, s := range list {
		w.Text(s)
	}
}

// Decoder takes the parts of a payload. After the first error it returns zero
// values, so that a parser need look once, at the end.
type Decoder struct {
	rest []byte
	room int // bytes that the message may still take besides its frame
	err  error
}

// NewDecoder takes the parts of a payload, which stays the caller's. A message of it may take so
// many bytes of memory besides.
func NewDecoder(payload []byte, room int) *Decoder { return &Decoder{rest: payload, room: room} }

// Rest is what has not been taken yet.
func (r *Decoder) Rest() []byte { return r.rest }

// Err is the first error; nil if there was none.
func (r *Decoder) Err() error { return r.err }

// Charge counts memory that a message takes besides its frame.
func (r *Decoder) Charge(n int) {
	if r.room -= n; r.room < 0 {
		r.Fail(ErrDense)
	}
}

// Fail sets the error of r to err, unless r already has an error. It does nothing if err is nil.
func (r *Decoder) Fail(err error) {
	if err != nil {
		r.err, r.rest = cmp.Or(r.err, err), nil
	}
}

// Byte takes one byte.
func (r *Decoder) Byte() byte {
	if len(r.rest) == 0 {
		r.Fail(ErrShort)
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// Uint takes a number of at most so much.
func (r *Decoder) Uint(most uint64) uint64 {
	n, size := binary.Uvarint(r.rest)
	switch {
	case size == 0:
		r.Fail(ErrShort)
		return 0
	case size < 0 || n > most:
		r.Fail(ErrRange)
		return 0
	case size > 1 && r.rest[size-1] == 0:
		r.Fail(ErrCanonical)
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// U32 takes a number of at most 32 bits.
func (r *Decoder) U32() uint32 { return uint32(r.Uint(math.MaxUint32)) }

// U16 reads a number and fails if it has more than 16 bits.
func (r *Decoder) U16() uint16 { return uint16(r.Uint(math.MaxUint16)) }

// U64 reads a number and fails if it has more than 64 bits.
func (r *Decoder) U64() uint64 { return r.Uint(math.MaxUint64) }

// Next reads a number that Encoder.Next has written. It returns 1<<32-1 for no value.
func (r *Decoder) Next() uint32 { return r.U32() - 1 }

// Time reads a time that Encoder.Time has written. It returns -1 for never.
func (r *Decoder) Time() time.Duration {
	n := r.Uint(uint64(maxTime/time.Microsecond) + 1)
	if n == 0 {
		return -1
	}
	return time.Duration(n-1) * time.Microsecond
}

// Must sets the error of r to ErrRange if holds is false and r has no error yet.
func (r *Decoder) Must(holds bool) {
	if !holds {
		r.Fail(ErrRange)
	}
}

// Sum takes what Encoder.Sum writes.
func (r *Decoder) Sum() uint64 { return r.Uint(math.MaxInt64) }

// Bool takes a flag.
func (r *Decoder) Bool() bool {
	b := r.Byte()
	if b > 1 {
		r.Fail(ErrCanonical)
	}
	return b == 1
}

// Bytes reads a length n and then n bytes. The result shares the memory of the payload.
func (r *Decoder) Bytes() []byte {
	n := r.Uint(math.MaxInt32)
	if n > uint64(len(r.rest)) {
		r.Fail(ErrShort)
		return nil
	}
	if n == 0 {
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// Text reads a length n and then a text of n bytes.
func (r *Decoder) Text() string {
	b := r.Bytes()
	if r.Charge((len(b) + wordSize - 1) &^ (wordSize - 1)); r.err != nil {
		return ""
	}
	return string(b)
}

// wordSize is what the allocator rounds up to, in bytes; the smallest that it has.
const wordSize = 8

// Count reads the number of elements that follow. It fails if there are fewer bytes than elements, because each element
// takes at least one byte.
func (r *Decoder) Count() int {
	n := r.Uint(math.MaxUint32)
	if n > uint64(len(r.rest)) {
		r.Fail(ErrShort)
		return 0
	}
	return int(n)
}

// Texts reads a count n and then n texts.
func (r *Decoder) Texts() []string {
	list := NewSlice[string](r)
	for i := range list {
		list[i] = r.Text()
	}
	return list
}

// NewSlice reads a count n and returns a slice of n zero values, into which the caller must read the elements. Use a
// List instead if there can be many elements, or if the caller keeps them for long.
func NewSlice[T any](r *Decoder) []T {
	n := r.Count()
	r.Charge(n * int(reflect.TypeFor[T]().Size()))
	if n == 0 || r.err != nil {
		return nil
	}
	return make([]T, n)
}
