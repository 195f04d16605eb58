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
	lines bool // see SkipNewlines
	head  [5]byte
}

// NewReader reads what a sender says from r, which stays the caller's.
func (v Vocabulary) NewReader(r io.Reader, from Sender) *Reader {
	return &Reader{r: r, known: v, from: from}
}

// Newline is a byte that no frame begins with, as its length would be too great.
const Newline = '\n'

// SkipNewlines lets any number of bytes Newline stand before a frame: a sender whose stream is held
// until a line ends writes one behind its frames.
func (r *Reader) SkipNewlines() { r.lines = true }

// length reads that of the next frame.
func (r *Reader) length() (int, error) {
	from := 0
	for r.lines && from == 0 {
		if _, err := io.ReadFull(r.r, r.head[:1]); err != nil {
			return 0, err
		}
		if r.head[0] != Newline {
			from = 1
		}
	}
	_, err := io.ReadFull(r.r, r.head[from:lengthSize])
	if from > 0 && err != nil {
		err = io.ErrUnexpectedEOF
	}
	return int(binary.BigEndian.Uint32(r.head[:])), err
}

// firstRead is the most that is allocated on the word of a length alone.
const firstRead = 64 << 10

// Next returns the next message, which owns its memory. The error is io.EOF
// at the end of the stream between two frames, and io.ErrUnexpectedEOF within
// one. A frame costs at most twice the memory of what has come of it, and a kind
// that its sender may not send nothing.
func (r *Reader) Next() (Message, error) {
	size, err := r.length()
	if err != nil {
		return nil, err
	}
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
