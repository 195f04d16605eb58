package lazy

import (
	"encoding/binary"
	"errors"
)

// MaxMessage is the maximum length of a message in bytes.
const MaxMessage = 1<<31 - 1

// endMark is written in place of the length in a head. No message follows it in that direction of the stream.
const endMark = ^uint32(0)

// errEndMark is returned by the reader of a stream at the end mark.
var errEndMark = errors.New("the other side goes back to datagrams")

const (
	// smallMessage is the maximum length in bytes of a message that is copied behind its head. For such a message,
	// the copy costs less than a write of two buffers.
	smallMessage = 4 << 10
	// shortHead and alignedHead are the sizes in bytes of the heads of small and of longer messages.
	shortHead   = 4
	alignedHead = 64
)

// headBytes returns the size in bytes of the head of a message. The head is the length of the message in four bytes,
// big-endian. If the message is longer than smallMessage, zeros fill the head up to a cache line. The kernel copies at
// half the rate if the buffers of the kernel and of the process have different offsets within a cache line (decision
// 0041).
func headBytes(size int) int {
	if size <= smallMessage {
		return shortHead
	}
	return alignedHead
}

// appendHead appends the head of a message of size bytes.
func appendHead(b []byte, size int) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(size))
	return append(b, make([]byte, headBytes(size)-shortHead)...)
}
