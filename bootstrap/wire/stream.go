package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Reader takes messages from a stream.
type Reader struct {
	r    io.Reader
	head [4]byte
}

// NewReader reads frames from r, which stays the caller's.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// firstRead is the most that is allocated on the word of a length alone.
const firstRead = 64 << 10

// Next returns the next message, which owns its memory. The error is io.EOF
// at the end of the stream between two frames, and io.ErrUnexpectedEOF within
// one. A frame that is announced and does not come costs at most twice the
// memory of what did come.
func (r *Reader) Next() (Message, error) {
	if _, err := io.ReadFull(r.r, r.head[:]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(r.head[:]))
	if size > MaxFrame {
		return nil, fmt.Errorf("%w: %d bytes", ErrSize, size)
	}
	frame := make([]byte, min(size, firstRead))
	got := 0
	for got < size {
		if got == len(frame) {
			frame = append(frame, make([]byte, min(size-got, got))...)
		}
		n, err := io.ReadFull(r.r, frame[got:])
		got += n
		if err != nil {
			return nil, io.ErrUnexpectedEOF
		}
	}
	return Parse(frame)
}
