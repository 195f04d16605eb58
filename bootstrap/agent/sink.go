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
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// Style describes how the output of ranks is shown.
type Style struct {
	Label     bool                  // each line begins with its rank
	Timestamp bool                  // and the time
	Prefix    func(job.Rank) string // returns the start of each line; nil means no prefix
	// Direct, if not nil, gets what rank Terminal prints, byte for byte: the rank has a terminal.
	Direct   io.Writer
	Terminal job.Rank
	Escape   [3]bool // by stream: show control bytes, since it is a terminal
}

// labels reports whether lines begin with a label, a time or a prefix.
func (s Style) labels() bool { return s.Label || s.Timestamp || s.Prefix != nil }

// A line that is longer than a chunk is held until it ends, if it is labelled: up
// to longestLine bytes of one, and maxBuffered of all lines together, however many
// ranks there are. What is more goes out in pieces.
const (
	longestLine = 1 << 20
	maxBuffered = 8 << 20
)

// Sink writes the output of ranks to the standard output and standard error of ibrun. It uses a goroutine, so that a
// slow reader of the output does not block the loop.
type Sink struct {
	style Style
	to    [3]io.Writer // by stream: 1, 2

	mu     sync.Mutex
	queue  []printed
	closed bool
	woken  sync.Cond         // with the lock mu: queue or closed has changed
	ended  chan struct{}     // closed when run has returned
	cut    map[source][]byte // characters that are not complete yet, on a terminal
	failed bool
	tap    *Tap // also receives the output, for clients of the control socket; nil if there is no control socket

	// Of labelled lines that have not ended:
	parts    map[source]*part // what is held of them
	buffered int              // bytes, in all parts
	open     [3]*source       // by stream: whose line is begun there, and not ended
}

type source struct {
	rank   job.Rank
	stream uint8
}

// printed is one chunk of the output of a rank.
type printed struct {
	source
	data []byte
}

// part is the stored beginning of an unfinished line, as a list of chunks.
type part struct {
	chunks [][]byte
	size   int
}

// NewSink returns a Sink that writes to stdout and stderr. The caller must close the two writers.
func NewSink(stdout, stderr io.Writer, style Style) *Sink {
	s := &Sink{
		style: style, to: [3]io.Writer{1: stdout, 2: stderr}, ended: make(chan struct{}),
		parts: map[source]*part{}, cut: map[source][]byte{},
	}
	s.woken.L = &s.mu
	return s
}

func (s *Sink) put(w printed) {
	s.mu.Lock()
	s.queue = append(s.queue, w)
	s.mu.Unlock()
	s.woken.Signal()
}

// sinkPatience limits how long close waits while the reader of the output accepts no data.
const sinkPatience = 200 * time.Millisecond

// close writes the remaining output and ends the goroutine. It waits at most sinkPatience, because the output may be
// a pipe that is not read.
func (s *Sink) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.woken.Signal()
	select {
	case <-s.ended:
	case <-time.After(sinkPatience):
	}
}

func (s *Sink) run(to terminalEvents) {
	defer close(s.ended)
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && !s.closed {
			s.woken.Wait()
		}
		batch := s.queue
		s.queue = nil
		s.mu.Unlock()
		if len(batch) == 0 {
			s.flush()
			return
		}
		for _, w := range batch {
			s.write(w, to)
		}
	}
}

func (s *Sink) write(w printed, to terminalEvents) {
	s.tap.add(w)
	if s.failed {
		return
	}
	out, from := w.data, w.source
	if s.style.labels() {
		out = s.lines(from, w.data)
	}
	file := s.to[w.stream]
	if s.style.Direct != nil && w.rank == s.style.Terminal {
		file = s.style.Direct
	} else {
		out = s.shown(from, out)
	}
	if _, err := file.Write(out); err != nil {
		s.failed = true
		to.SinkFailed(core.SinkFailed{Pipe: errors.Is(err, syscall.EPIPE), Cause: err.Error()})
		return
	}
	to.Wrote(core.Wrote{N: len(w.data)})
}

// shown returns out with control bytes escaped if it is written to a terminal. It stores an incomplete character
// until the rest of it arrives, because other ranks may write in between.
func (s *Sink) shown(from source, out []byte) []byte {
	if !s.style.Escape[from.stream] {
		return out
	}
	if begun := s.cut[from]; len(begun) > 0 {
		out = append(begun, out...)
	}
	out, rest := plain.Output(out)
	if len(rest) == 0 {
		delete(s.cut, from)
	} else {
		s.cut[from] = append([]byte(nil), rest...)
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

// hold stores a part of an unfinished line. It returns false, without effect, if longestLine or maxBuffered would be
// exceeded.
func (s *Sink) hold(from source, piece []byte) bool {
	p := s.parts[from]
	if p == nil {
		p = &part{}
	}
	if p.size+len(piece) > longestLine || s.buffered+len(piece) > maxBuffered {
		return false
	}
	p.chunks, p.size = append(p.chunks, piece), p.size+len(piece)
	s.parts[from], s.buffered = p, s.buffered+len(piece)
	return true
}

// begin prepares out for more data of a line of from. It ends the unfinished line of another rank, and then appends
// the label, if from has not begun the line, and the stored part of the line.
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
		s.buffered -= p.size
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

// flush ends incomplete lines and writes incomplete characters.
func (s *Sink) flush() {
	for _, from := range inOrder(s.parts) {
		_, _ = s.to[from.stream].Write(s.shown(from, s.begin(nil, from)))
	}
	for _, from := range inOrder(s.cut) {
		_, _ = s.to[from.stream].Write(plain.Rest(s.cut[from]))
	}
	for stream, open := range s.open {
		if open != nil {
			_, _ = s.to[stream].Write([]byte{'\n'})
		}
	}
}

func inOrder[T any](of map[source]T) []source {
	return slices.SortedFunc(maps.Keys(of), func(a, b source) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.stream, b.stream))
	})
}
