package agent

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
)

// link is the sending side of the stream to the parent or to a child. The loop fills its two queues, and a writer
// goroutine sends their messages. Control messages have a queue of their own, so that output does not delay them. The
// queues have no limit of their own. The credit that the core grants limits the output.
type link struct {
	mu      sync.Mutex
	control []frame.Message
	ordered []frame.Message // output, and the messages DaemonsEnded and Exit, which must follow it
	closing bool
	wake    chan struct{} // capacity 1; poke sends to it, and drops the value if it is full; never closed
	written chan struct{} // closed by the writer when it ends
	lost    chan struct{} // closed by giveUp
	lines   atomic.Bool   // the receiver may get data only when a line ends, so each write ends with a newline
	given   sync.Once
}

func newLink() *link {
	return &link{wake: make(chan struct{}, 1), written: make(chan struct{}), lost: make(chan struct{})}
}

func (l *link) send(m frame.Message) {
	l.mu.Lock()
	switch m.(type) {
	case wire.Output, wire.Chunk, wire.DaemonOutput, wire.DaemonsEnded, wire.Exit:
		l.ordered = append(l.ordered, m)
	case wire.Heartbeat:
		// One is enough: a parent that is stopped takes nothing for hours.
		if n := len(l.control); n == 0 || l.control[n-1] != frame.Message(m) {
			l.control = append(l.control, m)
		}
	default:
		l.control = append(l.control, m)
	}
	l.mu.Unlock()
	poke(l.wake)
}

// poke wakes the receiver of a channel of capacity 1. It does nothing if the channel is full, since the receiver has
// not seen the last wake-up yet.
func poke(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// finish lets the writer end when the queues are empty.
func (l *link) finish() {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	poke(l.wake)
}

// giveUp unblocks drain, because the peer is dead.
func (l *link) giveUp() { l.given.Do(func() { close(l.lost) }) }

// drain closes the queues and waits until the writer has ended or giveUp is called, but at most for the time most.
func (l *link) drain(most time.Duration) {
	l.finish()
	select {
	case <-l.written:
	case <-l.lost:
	case <-time.After(most):
	}
}

// take moves up to a batch of messages into frames: all of the control ones
// first, then as much output as makes a good write.
func (l *link) take(buf []byte) (frames []byte, end bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.control {
		buf = frame.Append(buf, m)
	}
	clear(l.control)
	l.control = l.control[:0]
	n := 0
	for n < len(l.ordered) && len(buf) < batch {
		buf = frame.Append(buf, l.ordered[n])
		n++
	}
	rest := copy(l.ordered, l.ordered[n:])
	clear(l.ordered[rest:])
	l.ordered = l.ordered[:rest]
	return buf, l.closing && rest == 0
}

// batch is the size in bytes from which a larger write is not more efficient.
const batch = 64 << 10

// write is the writer goroutine. It ends when the link is finished or w fails;
// a failure shows on the reading side too, which is where it is reported.
func (l *link) write(w io.WriteCloser) {
	defer close(l.written)
	defer w.Close()
	var buf []byte
	for {
		frames, end := l.take(buf[:0])
		if len(frames) > 0 {
			if l.lines.Load() {
				frames = append(frames, frame.Newline)
			}
			if _, err := w.Write(frames); err != nil {
				return
			}
			buf = frames
			continue
		}
		if end {
			return
		}
		<-l.wake
	}
}

// read is the reader goroutine of a link. It reports messages until the stream ends, and returns the reason. If lines
// is set, the sender may write newlines between frames.
func read(r io.Reader, from core.Link, lines bool, to linkEvents) error {
	sender := frame.Child
	if from == core.Up {
		sender = frame.Parent
	}
	frames := wire.Vocabulary.NewReader(r, sender)
	if lines {
		frames.SkipNewlines()
	}
	for {
		m, err := frames.Next()
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		if err != nil {
			return err
		}
		to.Frame(core.Frame{From: from, Msg: m})
		if m.Kind() == wire.KindJoin {
			return errHandedOver
		}
	}
}

// errHandedOver ends the reading of a link that another agent has taken over.
var errHandedOver = errors.New("the link is handed over")
