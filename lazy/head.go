package lazy

import (
	"encoding/binary"
	"errors"
)

// MaxMessage is the length of the longest message in bytes.
const MaxMessage = 1<<31 - 1

// endMark stands where a length would, as the last word of one direction.
const endMark = ^uint32(0)

var errEndMark = errors.New("the other side goes back to datagrams")

const (
	// smallMessage is copied behind its head: that is cheaper than a write of two pieces.
	smallMessage = 4 << 10
	// shortHead is the head of a small message, alignedHead that of a longer one.
	shortHead   = 4
	alignedHead = 64
)

// headBytes is the size of a message's head: its length in four bytes, big-endian, and behind that
// of a longer message zeroes up to a cache line. The kernel copies from and to memory of a user
// whose offset within a line differs from that of its own at half the rate (decision 0041).
func headBytes(size int) int {
	if size <= smallMessage {
		return shortHead
	}
	return alignedHead
}

// appendHead appends the head of a message.
func appendHead(b []byte, size int) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(size))
	return append(b, make([]byte, headBytes(size)-shortHead)...)
}
