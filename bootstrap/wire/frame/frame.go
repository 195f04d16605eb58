// Package frame has what all frames have in common: a length, the number of a kind, a payload of
// numbers, texts and lists. It knows no message: a Vocabulary says which there are between two
// ends. It is pure: it does no I/O of its own and keeps nothing between calls. docs/dev/protocol.md,
// "Frames", is normative for the bytes.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxSize is the most bytes that a frame has after its length.
const MaxSize = 64 << 20

// A message takes at most twice the bytes of its frame, and so many bytes besides. Of those that
// come once it is more: words of the size that a system call takes are headers for the most part.
const (
	Slack     = 4 << 10 // of most kinds
	OnceSlack = 8 << 20 // of those that come once
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

// Kind numbers the messages of all vocabularies. A number is never reused.
type Kind uint8

// Message is one of the message types of a vocabulary.
type Message interface {
	Kind() Kind
	String() string
	Encode(*Encoder) // the payload
}

// Append adds the frame of m to dst: length, kind, payload. It panics if the frame is longer than
// it may be, which is a defect of the sender.
func Append(dst []byte, m Message) []byte {
	at := len(dst)
	w := encode(dst, m)
	if size := len(w) - at - lengthSize; size > MaxSize {
		panic(fmt.Sprintf("%v: kind %d of %d bytes", ErrSize, m.Kind(), size))
	}
	return w
}

// lengthSize is what the length before a frame takes, in bytes.
const lengthSize = 4

// encode is Append for a message of any size.
func encode(dst []byte, m Message) []byte {
	at := len(dst)
	w := Encoder(append(dst, 0, 0, 0, 0, byte(m.Kind())))
	m.Encode(&w)
	binary.BigEndian.PutUint32(w[at:], uint32(len(w)-at-lengthSize))
	return w
}
