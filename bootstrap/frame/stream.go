package frame

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// Reader takes the messages of one sender from a stream.
type Reader struct {
	r     io.Reader
	known Vocabulary
	from  Sender
	begun bool // the message that comes once has come
	head  [5]byte
}

// NewReader reads what a sender says from r, which stays the caller's.
func (v Vocabulary) NewReader(r io.Reader, from Sender) *Reader {
	return &Reader{r: r, known: v, from: from}
}

// firstRead is the most that is allocated on the word of a length alone.
const firstRead = 64 << 10

// Next returns the next message, which owns its memory. The error is io.EOF
// at the end of the stream between two frames, and io.ErrUnexpectedEOF within
// one. A frame costs at most twice the memory of what has come of it, and a kind
// that its sender may not send nothing.
func (r *Reader) Next() (Message, error) {
	if _, err := io.ReadFull(r.r, r.head[:4]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(r.head[:]))
	if size > MaxSize {
		return nil, fmt.Errorf("%w: %d bytes", ErrSize, size)
	}
	if size == 0 {
		return nil, ErrShort
	}
	if _, err := io.ReadFull(r.r, r.head[4:]); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	kind := Kind(r.head[4])
	format := r.known.Format(kind)
	switch {
	case format.Parse == nil:
		return nil, fmt.Errorf("%w: %d", ErrKind, kind)
	case !r.known.Allows(kind, r.from):
		return nil, fmt.Errorf("%w for a %v: %v", ErrKind, r.from, format.Name)
	case format.Once && r.begun:
		return nil, fmt.Errorf("%w: %v", ErrAgain, format.Name)
	}
	r.begun = r.begun || format.Once
	frame, err := r.frame(size)
	if err != nil {
		return nil, err
	}
	return r.known.Parse(frame)
}

// frame reads a frame whose first byte is here. What has come is kept in pieces,
// each as long as all before it, so that it is never held more than twice.
func (r *Reader) frame(size int) ([]byte, error) {
	piece := make([]byte, min(size, firstRead))
	piece[0] = r.head[4]
	if _, err := io.ReadFull(r.r, piece[1:]); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	pieces, got := [][]byte{piece}, len(piece)
	for got < size {
		piece = make([]byte, min(size-got, got))
		if _, err := io.ReadFull(r.r, piece); err != nil {
			return nil, io.ErrUnexpectedEOF
		}
		pieces, got = append(pieces, piece), got+len(piece)
	}
	if len(pieces) == 1 {
		return piece, nil
	}
	return slices.Concat(pieces...), nil
}
