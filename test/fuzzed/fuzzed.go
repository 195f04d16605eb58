// Package fuzzed helps fuzz targets. Input turns the bytes of a fuzz input into choices, so that a target can derive a
// sequence of events from them. Allocated measures the memory that a target allocates.
package fuzzed

import "runtime/metrics"

// Input holds the bytes of a fuzz input that have not been read yet.
type Input []byte

// Byte reads and returns the next byte. It returns 0 after the end of the input.
func (in *Input) Byte() byte {
	if len(*in) == 0 {
		return 0
	}
	b := (*in)[0]
	*in = (*in)[1:]
	return b
}

// Of reads a byte and returns its value modulo n, which is a number from 0 to n-1. If n is larger than 256, the result
// is at most 255. If n is less than 1, Of returns 0.
func (in *Input) Of(n int) int { return int(in.Byte()) % max(n, 1) }

// Odds reads a byte and returns true for about one in so many values of the byte: with Odds(4) for a quarter of them.
// The number one must be between 1 and 256. After the end of the input, Odds returns false unless one is 1.
func (in *Input) Odds(one int) bool { return in.Of(one) == one-1 }

// Allocated returns the number of bytes that this process has allocated on the heap since its start. Freed bytes count,
// too.
func Allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
