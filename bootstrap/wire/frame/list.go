package frame

import (
	"iter"
	"math"
	"slices"
)

// List is a sequence in its encoded form. It takes the memory of the bytes that
// it came in, however small its elements are, and goes on as it came; elements
// are decoded when somebody looks at them. The zero value is empty. A List is a
// value: no method changes it, and lists share bytes.
type List[T any, C Codec[T]] struct {
	count int
	raw   [][]byte // whole elements, one behind the other; none is empty
}

// Codec writes and reads one element, which takes a byte or more.
type Codec[T any] interface {
	Encode(*Encoder, T)
	Decode(*Decoder) T
}

// Len is the number of elements.
func (l List[T, C]) Len() int { return l.count }

// Size is what the elements take in a frame, in bytes.
func (l List[T, C]) Size() (n int) {
	for _, raw := range l.raw {
		n += len(raw)
	}
	return n
}

// All are the elements, in order. What an element refers to may be shared.
func (l List[T, C]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range l.encoded() {
			if !yield(v) {
				return
			}
		}
	}
}

// encoded are the elements and the bytes of each.
func (l List[T, C]) encoded() iter.Seq2[T, []byte] {
	return func(yield func(T, []byte) bool) {
		var c C
		for _, raw := range l.raw {
			for r := (Decoder{rest: raw, room: math.MaxInt}); len(r.rest) > 0; {
				at := r.rest
				if v := c.Decode(&r); !yield(v, at[:len(at)-len(r.rest)]) {
					return
				}
			}
		}
	}
}

// Whole is the list with all elements in one piece.
func (l List[T, C]) Whole() List[T, C] {
	if len(l.raw) > 1 {
		l.raw = [][]byte{slices.Concat(l.raw...)}
	}
	return l
}

// Places are the elements of a whole list, and the byte at which each begins.
func (l List[T, C]) Places() iter.Seq2[uint32, T] {
	return func(yield func(uint32, T) bool) {
		at := uint32(0)
		for v, raw := range l.encoded() {
			if !yield(at, v) {
				return
			}
			at += uint32(len(raw))
		}
	}
}

// At is the element of a whole list that begins at a byte.
func (l List[T, C]) At(place uint32) T {
	var c C
	return c.Decode(&Decoder{rest: l.raw[0][place:], room: math.MaxInt})
}

// Add puts another list at the end of this one, of which there must be no other
// copy that is added to.
func (l *List[T, C]) Add(o List[T, C]) { l.count, l.raw = l.count+o.count, append(l.raw, o.raw...) }

// Join is this list with another at its end.
func (l List[T, C]) Join(o List[T, C]) List[T, C] {
	l.raw = slices.Clip(l.raw)
	l.Add(o)
	return l
}

// Split sorts the elements into so many lists, each in the order of this one.
// Those whose class is negative are left out.
func (l List[T, C]) Split(classes int, class func(T) int) []List[T, C] {
	lists, sizes := make([]List[T, C], classes), make([]int, classes)
	for v, raw := range l.encoded() {
		if k := class(v); k >= 0 {
			lists[k].count++
			sizes[k] += len(raw)
		}
	}
	for k := range lists {
		switch {
		case lists[k].count == l.count:
			lists[k] = l
			return lists
		case lists[k].count > 0:
			lists[k].raw = [][]byte{make([]byte, 0, sizes[k])}
		}
	}
	for v, raw := range l.encoded() {
		if k := class(v); k >= 0 {
			lists[k].raw[0] = append(lists[k].raw[0], raw...)
		}
	}
	return lists
}

// Encode writes a count and the elements.
func (l List[T, C]) Encode(w *Encoder) {
	w.Uint(uint64(l.count))
	for _, raw := range l.raw {
		w.Raw(raw)
	}
}

// DecodeList reads a list from r. If check is not nil, DecodeList calls it with each element in turn. An error of check
// becomes the error of r.
func DecodeList[T any, C Codec[T]](r *Decoder, check func(T) error) (l List[T, C]) {
	n := r.Count()
	room, from := r.room, r.rest
	r.room = math.MaxInt // no limit: each decoded element is garbage after check
	var c C
	for range n {
		v := c.Decode(r)
		if r.err == nil && check != nil {
			r.Fail(check(v))
		}
		if r.err != nil {
			return l
		}
	}
	r.room = room
	if n > 0 {
		l = List[T, C]{n, [][]byte{from[: len(from)-len(r.rest) : len(from)-len(r.rest)]}}
	}
	return l
}

// InOrder returns a check of spans that come one after the other: they are in order, do not touch,
// and end at most at limit. It is one list's.
func InOrder(limit uint64) func(first, count uint32) error {
	next, begun := uint64(0), false
	return func(first, count uint32) error {
		if count == 0 || uint64(first) < next || begun && uint64(first) == next {
			return ErrCanonical
		}
		begun = true
		if next = uint64(first) + uint64(count); next > limit {
			return ErrRange
		}
		return nil
	}
}

// NewList returns a list of the given elements.
func NewList[T any, C Codec[T]](items ...T) List[T, C] { return ListOf[T, C](slices.Values(items)) }

// ListOf packs elements.
func ListOf[T any, C Codec[T]](items iter.Seq[T]) (l List[T, C]) {
	var c C
	var w Encoder
	for v := range items {
		c.Encode(&w, v)
		l.count++
	}
	if l.count > 0 {
		l.raw = [][]byte{w}
	}
	return l
}
