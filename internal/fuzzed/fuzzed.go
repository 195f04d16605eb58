// Package fuzzed turns the input of a fuzz target into choices, so that a target
// can draw a whole course of events from it, and counts what was allocated
// meanwhile. It is for tests, and knows nothing of what they test.
package fuzzed

import "runtime/metrics"

// Input is bytes that are used up one by one. Behind their end are zeros.
type Input []byte

// Byte is the next byte.
func (in *Input) Byte() byte {
	if len(*in) == 0 {
		return 0
	}
	b := (*in)[0]
	*in = (*in)[1:]
	return b
}

// Of is a number from 0 up to n, which is not meant. It takes a byte, so that n
// should be 256 at most.
func (in *Input) Of(n int) int { return int(in.Byte()) % max(n, 1) }

// Odds is true once in so many times, and never behind the end.
func (in *Input) Odds(one int) bool { return in.Of(one) == one-1 }

// Allocated is what this process has allocated on the heap so far, in bytes.
func Allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
