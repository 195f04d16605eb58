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
	"ibrun/internal/plain"
)

// Style says how ranks' output is shown.
type Style struct {
	Label     bool    // each line begins with its rank
	Timestamp bool    // and the time
	Escape    [3]bool // by stream: show control bytes, since it is a terminal
}

// longestLine is the most, in bytes, of one line that is held until it ends.
const longestLine = 1 << 20

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
	part   map[source][]byte // lines that are not complete yet, when labelled
	cut    map[source][]byte // characters that are not complete yet, on a terminal
	failed bool
}

type source struct {
	rank   uint32
	stream uint8
}

// NewSink makes a sink over two writers, which stay the caller's.
func NewSink(stdout, stderr io.Writer, style Style) *Sink {
	return &Sink{
		style: style, to: [3]io.Writer{1: stdout, 2: stderr},
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
		part: map[source][]byte{}, cut: map[source][]byte{},
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
	out, from := w.Data, source{w.Rank, w.Stream}
	if s.style.Label || s.style.Timestamp {
		out = s.lines(from, w.Data)
	}
	if _, err := s.to[w.Stream].Write(s.shown(from, out)); err != nil {
		s.failed = true
		post(core.SinkFailed{Pipe: errors.Is(err, syscall.EPIPE), Cause: err.Error()})
		return
	}
	post(core.Wrote{N: len(w.Data)})
}

// shown is what a source's stream is to show of some bytes. A character is
// shown when it is whole: others may write between its bytes.
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

// lines returns the complete lines of a source, each with its label, and
// keeps the rest.
func (s *Sink) lines(from source, data []byte) []byte {
	var out []byte
	rest := append(s.part[from], data...)
	for {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			break
		}
		out = append(s.label(out, from), rest[:i+1]...)
		rest = rest[i+1:]
	}
	if len(rest) >= longestLine {
		out = append(append(s.label(out, from), rest...), '\n')
		rest = nil
	}
	if len(rest) == 0 {
		delete(s.part, from)
	} else {
		s.part[from] = append([]byte(nil), rest...)
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
	return out
}

// flush ends the lines that their ranks did not end, and shows characters that
// they did not.
func (s *Sink) flush() {
	for _, from := range inOrder(s.part) {
		out := append(append(s.label(nil, from), s.part[from]...), '\n')
		_, _ = s.to[from.stream].Write(s.shown(from, out))
	}
	for _, from := range inOrder(s.cut) {
		_, _ = s.to[from.stream].Write(plain.Rest(s.cut[from]))
	}
}

func inOrder(of map[source][]byte) []source {
	return slices.SortedFunc(maps.Keys(of), func(a, b source) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.stream, b.stream))
	})
}
