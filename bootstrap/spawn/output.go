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
	// chunkSize bounds one chunk of output; it is wire.MaxData.
	chunkSize = 32 << 10
	// firstChunk is the room for a stream until it has filled that once: most say
	// little, and a node has many.
	firstChunk = 1 << 10
	// The beginning of a line waits for the rest, so that lines of up to chunkSize are
	// whole whoever else prints. A program that buffers ends a block anywhere in a line,
	// an MPI program that does not makes many writes of one printf, and a busy node
	// runs others between two of them. It appears after lineMost, and earlier if
	// the rank reads ibrun's input and nothing has come for lineGap: then it is a prompt.
	lineGap  = 100 * time.Millisecond
	lineMost = 2 * time.Second
	// lineLast is for what came while this goroutine was late.
	lineLast = time.Millisecond
)

// reader reads one stream of one rank. Its goroutine ends with the stream, or
// some time after the rank's end when something else holds the stream open.
type reader struct {
	rank       job.Slot
	stream     uint8
	unbuffered bool
	feed       *feeder // what the rank reads of ibrun's input; nil: nothing
	events     Events
	file       pollable      // nil: nothing is read
	copy       *os.File      // gets what is read, too; nil: nothing does
	more       chan struct{} // capacity 1; filled by resume, one chunk a time
	ended      chan struct{}
	muted      chan struct{} // closed when the reader drops what comes

	mu     sync.Mutex
	until  time.Time // when to give up; zero while the rank lives
	muting bool      // what comes when nothing is left to read is dropped
	drops  bool      // it is
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

// start reads f, which is an *os.File unless a test has it read something else.
func (r *reader) start(f pollable, copy *os.File) {
	r.mu.Lock()
	r.file, r.copy = f, copy
	r.mu.Unlock()
	go r.run()
}

// resize tells the program of a terminal of the new size.
func (r *reader) resize(to job.Window) {
	r.mu.Lock()
	f, ok := r.file.(*os.File)
	r.mu.Unlock()
	if ok {
		_ = proc.Resize(f, to.Rows, to.Cols) // fails when the rank has ended
	}
}

// keep writes to the per-rank file what is forwarded, too. A file that takes no more is given up,
// and said so once.
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

// wait returns when the stream has ended, which is at most patience after now,
// not counting the time in which nobody takes what is read.
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

// read fills buf from the stream, waiting most for it; 0 waits for ever. What has
// come while this goroutine was late is there before the time is up.
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

// over reports whether the time after the rank's end is up.
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

// patience is how long the beginning of a line waits for more, when all that is there was read.
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

// ready is how much of what has been read is passed on: whole lines, or all if
// nothing more comes or fits.
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

// start starts to read and write our ends of the descriptors, which it takes from e.
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
