package spawn

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"ibrun/internal/proc"
	"ibrun/job"
)

const (
	// chunkSize bounds one chunk of output; it is wire.MaxData.
	chunkSize = 32 << 10
	// firstChunk is the room for a stream until it has filled that once: most say
	// little, and a node has many.
	firstChunk = 1 << 10
	// gather is how long the beginning of a line waits for the rest. MPI
	// libraries unbuffer stdout: one printf becomes many one-byte writes.
	gather = 5 * time.Millisecond
)

// reader reads one stream of one rank. Its goroutine ends with the stream, or
// some time after the rank's end when something else holds the stream open.
type reader struct {
	rank       uint32
	stream     uint8
	unbuffered bool
	post       func(Event)
	file       *os.File      // nil: nothing is read
	copy       *os.File      // gets what is read, too; nil: nothing does
	more       chan struct{} // capacity 1; filled by resume, one chunk a time
	ended      chan struct{}

	mu    sync.Mutex
	until time.Time // when to give up; zero while the rank lives
}

func newReader(rank uint32, stream uint8, cfg Config) *reader {
	return &reader{
		rank: rank, stream: stream, unbuffered: cfg.Job.Output.Unbuffered, post: cfg.Post,
		more: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

func (r *reader) start(f, copy *os.File) {
	r.mu.Lock()
	r.file, r.copy = f, copy
	r.mu.Unlock()
	go r.run()
}

// resize tells the program of a terminal of the new size.
func (r *reader) resize(to job.Window) {
	r.mu.Lock()
	f := r.file
	r.mu.Unlock()
	if f != nil {
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
		r.post(Warning{fmt.Sprintf("%v; what else the rank prints is only forwarded", err)})
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

// read fills buf from the stream, waiting most for it; 0 waits for ever.
func (r *reader) read(buf []byte, most time.Duration) (int, error) {
	r.mu.Lock()
	deadline := r.until
	if at := time.Now().Add(most); most > 0 && (deadline.IsZero() || at.Before(deadline)) {
		deadline = at
	}
	_ = r.file.SetReadDeadline(deadline)
	r.mu.Unlock()
	return r.file.Read(buf)
}

// over reports whether the time after the rank's end is up.
func (r *reader) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.until.IsZero() && !time.Now().Before(r.until)
}

// pass posts one chunk and waits until the next may follow.
func (r *reader) pass(data []byte) {
	r.post(Output{Rank: r.rank, Stream: r.stream, Data: bytes.Clone(data)})
	began := time.Now()
	<-r.more
	r.mu.Lock()
	if !r.until.IsZero() {
		r.until = r.until.Add(time.Since(began))
	}
	r.mu.Unlock()
}

func (r *reader) run() {
	defer close(r.ended)
	defer r.file.Close()
	defer func() {
		if r.copy != nil {
			r.copy.Close()
		}
	}()
	buf := make([]byte, firstChunk)
	for {
		n, err := r.read(buf, 0)
		if n == len(buf) && n < chunkSize {
			buf = append(make([]byte, 0, chunkSize), buf...)[:chunkSize]
		}
		// The beginning of a line waits a little for the rest.
		for n > 0 && n < len(buf) && err == nil && !r.unbuffered && buf[n-1] != '\n' {
			var k int
			k, err = r.read(buf[n:], gather)
			n += k
		}
		if n > 0 {
			r.keep(buf[:n])
			r.pass(buf[:n])
		}
		if late := errors.Is(err, os.ErrDeadlineExceeded); err != nil && !late || late && r.over() {
			return
		}
	}
}
