package agent

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
)

// Style says how ranks' output is shown.
type Style struct {
	Label     bool                     // each line begins with its rank
	Timestamp bool                     // and the time
	Prefix    func(rank uint32) string // and with this; nil: with nothing
	// Direct, if not nil, gets what rank Terminal prints, byte for byte: the rank has a terminal.
	Direct   io.Writer
	Terminal uint32
	Escape   [3]bool // by stream: show control bytes, since it is a terminal
}

// labels reports whether lines begin with something.
func (s Style) labels() bool { return s.Label || s.Timestamp || s.Prefix != nil }

// A line that is longer than a chunk is held until it ends, if it is labelled: up
// to longestLine bytes of one, and heldMost of all lines together, however many
// ranks there are. What is more goes out in pieces.
const (
	longestLine = 1 << 20
	heldMost    = 8 << 20
)

// Sink writes what ranks print to ibrun's own output, in one goroutine, so
// that a slow consumer holds up nothing but the credit of those who print.
type Sink struct {
	style Style
	to    [3]io.Writer // by stream: 1, 2

	mu     sync.Mutex
	queue  []core.Write
	closed bool
	wake   chan struct{} // capacity 1
	ended  chan struct{}
	failed bool

	// Of labelled lines that have not ended:
	parts map[source]*part // what is held of them
	held  int              // bytes, in all parts
	open  [3]*source       // by stream: whose line is begun there, and not ended
	last  byte             // that was written, to whichever stream: both may be one terminal
}

type source struct {
	rank   uint32
	stream uint8
}

// part is the beginning of a line, in the chunks that it came in.
type part struct {
	chunks [][]byte
	size   int
}

// NewSink makes a sink over two writers, which stay the caller's.
func NewSink(stdout, stderr io.Writer, style Style) *Sink {
	return &Sink{
		style: style, to: [3]io.Writer{1: stdout, 2: stderr},
		wake: make(chan struct{}, 1), ended: make(chan struct{}), parts: map[source]*part{},
	}
}

func (s *Sink) put(w core.Write) {
	s.mu.Lock()
	s.queue = append(s.queue, w)
	s.mu.Unlock()
	s.poke()
}

func (s *Sink) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// sinkPatience is how long close waits for a consumer that takes nothing.
const sinkPatience = 200 * time.Millisecond

// close writes what is left and ends the goroutine. A consumer that takes
// nothing is not waited for: the core has already given that output up.
func (s *Sink) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.poke()
	select {
	case <-s.ended:
	case <-time.After(sinkPatience):
	}
}

func (s *Sink) run(post func(any)) {
	defer close(s.ended)
	for {
		s.mu.Lock()
		batch, closed := s.queue, s.closed
		s.queue = nil
		s.mu.Unlock()
		for _, w := range batch {
			s.write(w, post)
		}
		if len(batch) > 0 {
			continue
		}
		if closed {
			s.flush()
			return
		}
		<-s.wake
	}
}

func (s *Sink) write(w core.Write, post func(any)) {
	if s.failed {
		return
	}
	out := w.Data
	if s.style.labels() {
		out = s.lines(source{w.Rank, w.Stream}, w.Data)
	}
	to := s.to[w.Stream]
	if s.style.Direct != nil && w.Rank == s.style.Terminal {
		to = s.style.Direct
	} else {
		out = s.shown(w.Stream, out)
	}
	if _, err := to.Write(out); err != nil {
		s.failed = true
		post(core.SinkFailed{Pipe: errors.Is(err, syscall.EPIPE), Cause: err.Error()})
		return
	}
	post(core.Wrote{N: len(w.Data)})
}

// shown is what a stream is to show of some bytes.
func (s *Sink) shown(stream uint8, out []byte) []byte {
	if s.style.Escape[stream] {
		out = escape(out, s.last)
	}
	if len(out) > 0 {
		s.last = out[len(out)-1]
	}
	return out
}

// lines returns what is to be shown of a chunk: lines, each with its label. Agents
// send whole lines. A line goes on only in a chunk that is full; then it is
// held. Any other beginning of one has waited long enough: it is shown, as a prompt is.
func (s *Sink) lines(from source, data []byte) (out []byte) {
	for line := range bytes.Lines(data) {
		switch {
		case line[len(line)-1] == '\n':
			out = append(s.begin(out, from), line...)
			s.open[from.stream] = nil
		case len(data) < wire.MaxData || !s.hold(from, line):
			out = append(s.begin(out, from), line...)
		}
	}
	return out
}

// hold keeps a piece of a line, if there is room for it.
func (s *Sink) hold(from source, piece []byte) bool {
	p := s.parts[from]
	if p == nil {
		p = &part{}
	}
	if p.size+len(piece) > longestLine || s.held+len(piece) > heldMost {
		return false
	}
	p.chunks, p.size = append(p.chunks, piece), p.size+len(piece)
	s.parts[from], s.held = p, s.held+len(piece)
	return true
}

// begin makes out ready for more of a source's line: its label and what is held of
// it, behind the end of another's line that is begun. Nothing, if it is this one.
func (s *Sink) begin(out []byte, from source) []byte {
	open := s.open[from.stream]
	if open != nil && *open != from {
		out = append(out, '\n')
	}
	if open == nil || *open != from {
		out = s.label(out, from)
		s.open[from.stream] = &from
	}
	if p := s.parts[from]; p != nil {
		for _, c := range p.chunks {
			out = append(out, c...)
		}
		s.held -= p.size
		delete(s.parts, from)
	}
	return out
}

func (s *Sink) label(out []byte, from source) []byte {
	if s.style.Timestamp {
		out = append(time.Now().AppendFormat(out, "2006-01-02 15:04:05.000"), ' ')
	}
	if s.style.Label {
		out = fmt.Appendf(out, "[%d] ", from.rank)
	}
	if s.style.Prefix != nil {
		out = append(out, s.style.Prefix(from.rank)...)
	}
	return out
}

// flush ends the lines that their ranks did not end.
func (s *Sink) flush() {
	order := slices.SortedFunc(maps.Keys(s.parts), func(a, b source) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.stream, b.stream))
	})
	for _, from := range order {
		_, _ = s.to[from.stream].Write(s.shown(from.stream, s.begin(nil, from)))
	}
	for stream, open := range s.open {
		if open != nil {
			_, _ = s.to[stream].Write([]byte{'\n'})
		}
	}
}

// escape makes control bytes visible, so that what a rank prints cannot
// command the user's terminal. Tab, line feed, carriage return and backspace
// stay: programs draw progress with them. A control character of two bytes may
// begin with the last one that was written before.
func escape(b []byte, last byte) []byte {
	plain := func(c byte) bool { return c >= 0x20 && c != 0x7f || c >= '\b' && c <= '\n' || c == '\r' }
	second := func(before, c byte) bool { return before == 0xc2 && c >= 0x80 && c < 0xa0 }
	begun := len(b) > 0 && second(last, b[0])
	if !begun && bytes.IndexFunc(b, func(r rune) bool { return r < 0x80 && !plain(byte(r)) || r >= 0x80 && r < 0xa0 }) < 0 {
		return b
	}
	out := make([]byte, 0, len(b)+16)
	for _, c := range b {
		if plain(c) && !second(last, c) {
			out = append(out, c)
		} else {
			out = fmt.Appendf(out, "\\x%02x", c)
		}
		last = c
	}
	return out
}
