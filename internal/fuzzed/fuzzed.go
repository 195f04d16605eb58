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

// Of reads a byte and returns a number from 0 to n-1. If n is larger than 256, the result is at most 255.
func (in *Input) Of(n int) int { return int(in.Byte()) % max(n, 1) }

// Odds reads a byte and returns true with a probability of 1/one if the byte is random. After the end of the input it
// returns false, unless one is 1.
func (in *Input) Odds(one int) bool { return in.Of(one) == one-1 }

// Allocated returns the number of bytes that this process has allocated on the heap since its start, including bytes
// that were freed.
func Allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
