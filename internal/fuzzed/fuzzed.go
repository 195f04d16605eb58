// Package fuzzed turns the input of a fuzz target into choices, so that a target
// can draw a sequence of events from it. It also counts allocated memory. It is
// for tests, and does not depend on what they test.
package fuzzed

import "runtime/metrics"

// Input is a sequence of bytes that are read one by one. After its end all bytes are 0.
type Input []byte

// Byte reads the next byte.
func (in *Input) Byte() byte {
	if len(*in) == 0 {
		return 0
	}
	b := (*in)[0]
	*in = (*in)[1:]
	return b
}

// Of reads a byte and returns a number from 0 to n-1. n should be at most 256.
func (in *Input) Of(n int) int { return int(in.Byte()) % max(n, 1) }

// Odds returns true in one of so many cases. After the end of the input it returns false.
func (in *Input) Odds(one int) bool { return in.Of(one) == one-1 }

// Allocated returns how many bytes this process has allocated on the heap so far.
func Allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
