package spawn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
	"ibrun/internal/proc"
)

const (
	// chunkSize is the maximum size in bytes of a chunk of output. It equals wire.MaxData.
	chunkSize = 32 << 10
	// firstChunk is the initial size in bytes of the buffer of a stream. It is small, because most streams have
	// little data and a node has many streams.
	firstChunk = 1 << 10
	// The beginning of a line waits for the rest, so that the output of other ranks does not split lines of up to
	// chunkSize. A program may write a line in several parts. The beginning is reported after lineMost. If the rank
	// may still receive input, the beginning may be a prompt, and is reported when no data has arrived for lineGap.
	lineGap  = 100 * time.Millisecond
	lineMost = 2 * time.Second
	// lineLast is the time for reading data that arrived while this goroutine was late.
	lineLast = time.Millisecond
)

// reader reads one output stream of one rank. Its goroutine ends with the stream, or some time after the end of the
// rank if another process keeps the stream open.
type reader struct {
	rank       job.Slot
	stream     uint8
	unbuffered bool
	feed       *feeder // writes the input of the rank; nil if it gets no input
	events     Events
	file       pollable      // nil if nothing is read
	copy       *os.File      // file to which the output is also written; nil if there is none
	more       chan struct{} // capacity 1; resume sends one value for each chunk
	ended      chan struct{}
	muted      chan struct{} // closed when the reader starts to drop output

	mu     sync.Mutex
	until  time.Time // time at which reading stops; zero while the rank lives
	muting bool      // mute was called
	drops  bool      // output is dropped from now on
}

// pollable is a stream whose Read ends at a deadline.
type pollable interface {
	io.ReadCloser
	SetReadDeadline(at time.Time) error
}

func newReader(rank job.Slot, stream uint8, feed *feeder, cfg Config) *reader {
	return &reader{
		rank: rank, stream: stream, unbuffered: cfg.Job.Output.Unbuffered, feed: feed, events: cfg.Events,
		more: make(chan struct{}, 1), ended: make(chan struct{}), muted: make(chan struct{}),
	}
}

// start starts to read f, which is an *os.File except in tests. If copy is not nil, the output is also written to it.
func (r *reader) start(f pollable, copy *os.File) {
	r.mu.Lock()
	r.file, r.copy = f, copy
	r.mu.Unlock()
	go r.run()
}

// resize sets the size of the terminal of the rank.
func (r *reader) resize(to job.Window) {
	r.mu.Lock()
	f, ok := r.file.(*os.File)
	r.mu.Unlock()
	if ok {
		_ = proc.Resize(f, to.Rows, to.Cols) // fails when the rank has ended
	}
}

// keep writes data also to the file of the rank. If this fails, keep warns the user once and writes no more to the
// file.
func (r *reader) keep(data []byte) {
	if r.copy == nil {
		return
	}
	if _, err := r.copy.Write(data); err != nil {
		r.events.Warn(fmt.Sprintf("%v; what else the rank prints is only forwarded", err))
		r.copy.Close()
		r.copy = nil
	}
}

func (r *reader) resume() {
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// wait returns when reading has stopped, at the end of the stream or after the time patience. A chunk that waits for
// resume can delay it further.
func (r *reader) wait(patience time.Duration) {
	if r.file == nil {
		return
	}
	r.mu.Lock()
	r.until = time.Now().Add(patience)
	_ = r.file.SetReadDeadline(r.until)
	r.mu.Unlock()
	<-r.ended
}

// read fills buf from the stream. It waits at most for the time most, or without limit if most is 0. If the goroutine
// was late, it still reads data that has arrived.
func (r *reader) read(buf []byte, most time.Duration) (n int, err error) {
	for _, wait := range [...]time.Duration{most, lineLast} {
		r.mu.Lock()
		if r.muting && !r.drops {
			most, wait = lineLast, lineLast // only what is there
		}
		deadline := r.until
		if at := time.Now().Add(wait); most > 0 && (deadline.IsZero() || at.Before(deadline)) {
			deadline = at
		}
		_ = r.file.SetReadDeadline(deadline)
		r.mu.Unlock()
		if n, err = r.file.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	return n, err
}

// over reports whether the time for reading after the end of the rank has expired.
func (r *reader) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.until.IsZero() && !time.Now().Before(r.until)
}

// pass reports one chunk of output and waits until resume allows the next one.
func (r *reader) pass(data []byte) {
	r.events.RankOutput(core.RankOutput{Rank: r.rank, Stream: r.stream, Data: bytes.Clone(data)})
	began := time.Now()
	<-r.more
	r.mu.Lock()
	if !r.until.IsZero() {
		r.until = r.until.Add(time.Since(began))
	}
	r.mu.Unlock()
}

// patience returns how long the beginning of a line waits for more data. The argument is the time at which the
// waiting began.
func (r *reader) patience(began time.Time) time.Duration {
	most := max(lineMost-time.Since(began), lineLast)
	if r.feed.more() {
		return min(most, lineGap)
	}
	return most
}

func (r *reader) run() {
	defer close(r.ended)
	defer r.file.Close()
	defer func() {
		if r.copy != nil {
			r.copy.Close()
		}
	}()
	buf, n := make([]byte, firstChunk), 0
	var began time.Time // when buf was empty last
	for {
		most := time.Duration(0)
		if n > 0 {
			most = r.patience(began)
		}
		k, err := r.read(buf[n:], most)
		if n == 0 {
			began = time.Now()
		}
		n += k
		if errors.Is(err, os.ErrDeadlineExceeded) && r.silenced() {
			if n > 0 {
				r.keep(buf[:n])
				r.pass(buf[:n])
			}
			r.discard(buf)
			return
		}
		if n > 0 && errors.Is(err, os.ErrDeadlineExceeded) && !r.over() && r.patience(began) > most {
			continue // the rank's input has ended meanwhile: this is no prompt
		}
		full := n == len(buf)
		if ready := r.ready(buf[:n], err); ready > 0 {
			r.keep(buf[:ready])
			r.pass(buf[:ready])
			n, began = copy(buf, buf[ready:n]), time.Now()
		}
		if full && n < chunkSize && len(buf) < chunkSize {
			buf = append(make([]byte, 0, chunkSize), buf...)[:chunkSize]
		}
		if late := errors.Is(err, os.ErrDeadlineExceeded); err != nil && !late || late && r.over() {
			return
		}
	}
}

// ready returns how many bytes of read are reported now: whole lines, or all bytes if no more data has arrived in
// time or fits.
func (r *reader) ready(read []byte, err error) int {
	if lines := bytes.LastIndexByte(read, '\n') + 1; err == nil && !r.unbuffered && (lines > 0 || len(read) < chunkSize) {
		return lines
	}
	return len(read)
}

// streams holds the readers of the output and the writer of the input of a rank or a daemon.
type streams struct {
	readers [3]*reader // indexed by stream; nil if the stream is not read
	feed    *feeder    // nil if the process gets no input from the job
}

// start starts to read and write the ends of the descriptors that belong to the agent. It takes them from e.
func (s *streams) start(e *ends) {
	for stream, f := range e.read {
		if f != nil {
			s.readers[stream].start(f, e.copy[stream])
			e.read[stream], e.copy[stream] = nil, nil
		}
	}
	if e.feed != nil {
		s.feed.start(e.feed)
		e.feed = nil
	}
}

// drainPatience limits how long drain waits. Processes that a rank or a daemon has left behind may keep its output
// open.
const drainPatience = 2 * time.Second

// drain waits for the end of the output of a process that has ended, for at most drainPatience.
func (s *streams) drain() {
	until := time.Now().Add(drainPatience)
	for _, r := range s.readers[1:] {
		r.wait(max(0, time.Until(until)))
	}
}

// input queues data or the end of the input, and sets the size of the terminal if in has one.
func (s *streams) input(in wire.Stdin) {
	if in.Window != (job.Window{}) {
		s.readers[1].resize(in.Window)
	}
	if s.feed == nil {
		return
	}
	if len(in.Data) > 0 {
		s.feed.put(in.Data)
	}
	if in.EOF {
		s.feed.end()
	}
}
