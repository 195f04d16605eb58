package pmi

import "encoding/binary"

// reader takes apart what servers tell each other inside of parcels and bulk values. It
// ends with ok false, and zero values, at the first thing that is none.
type reader struct {
	rest []byte
	ok   bool
}

func (r *reader) number(most uint32) uint32 {
	n, used := binary.Uvarint(r.rest)
	if used <= 0 || n > uint64(most) {
		r.rest, r.ok = nil, false
		return 0
	}
	r.rest = r.rest[used:]
	return uint32(n)
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.ok = false
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// bytes shares memory with what is read.
func (r *reader) bytes() []byte {
	n := r.number(1 << 30)
	if uint64(n) > uint64(len(r.rest)) {
		r.rest, r.ok = nil, false
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) text() string { return string(r.bytes()) }

// appendText adds bytes behind their length.
func appendText[T string | []byte](to []byte, s T) []byte {
	return append(binary.AppendUvarint(to, uint64(len(s))), s...)
}

// appendPair adds a key and its value.
func appendPair(to []byte, key string, value []byte) []byte {
	return appendText(appendText(to, key), value)
}
