package ib

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"ibrun/cgo/verbs"
)

// Why a stream fails that the near side has not ended.
var (
	errLeft   = errors.New("ib: the other side is closed")
	errBreach = errors.New("ib: the other side broke the rules of streams")
)

// stream is one end of a stream of bytes over a reliable queue pair.
//
//	awaiting (dialled by another; its first message has not come) --READY--> open
//	open --Close or the other's FIN--> FIN sent --FIN acknowledged and the other's FIN here, or lingerTime--> retired
//	any --error--> retired; retired --by the goroutine of the engine--> no queue pair
type stream struct {
	l      *engine
	serial uint32
	key    callKey
	mine   side
	theirs side

	mu       sync.Mutex
	readable sync.Cond
	writable sync.Cond
	pair     *queuePair // nil once the goroutine of the engine has freed it
	retired  bool
	awaiting bool
	closed   bool  // by us
	ended    bool  // by the other side: what is in the queue can be read
	err      error // neither
	linger   *time.Timer
	readBy   deadline
	writeBy  deadline

	out outgoing
	in  incoming

	onFail  func(error) // called once
	writing bool        // somebody is in Write
	fetches bool        // somebody reads remote memory
	loan    *loan
	granted *grant
}

// lingerTime is how long a closed stream waits for the other side's end.
const lingerTime = time.Second

func newStream(l *engine, e *queuePair, serial uint32, mine, theirs side) *stream {
	s := &stream{l: l, pair: e, serial: serial, mine: mine, theirs: theirs}
	s.readable.L, s.writable.L = &s.mu, &s.mu
	s.out.open(theirs.window)
	return s
}

// begin sends the first message, which tells the listener that we can receive.
func (s *stream) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.control(kindReady, nil)
}

// await bounds the wait for that message, which may have come: the answer to a CONNECT that was
// repeated goes out as soon as the engine has the stream.
func (s *stream) await(within time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.awaiting && !s.retired {
		s.linger = time.AfterFunc(within, s.orphan)
	}
}

// orphan ends a stream that nobody has been given.
func (s *stream) orphan() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.awaiting {
		s.awaiting, s.closed = false, true
		s.retire()
	}
}

// wake lets all who wait look again.
func (s *stream) wake() {
	s.readable.Broadcast()
	s.writable.Broadcast()
}

// retire gives the queue pair up; the caller holds the lock.
func (s *stream) retire() {
	if s.retired {
		return
	}
	s.retired = true
	if s.linger != nil {
		s.linger.Stop()
	}
	s.wake()
	s.l.retire(s)
}

// detach is the goroutine of the engine taking the queue pair.
func (s *stream) detach() *queuePair {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.pair
	s.pair = nil
	s.wake()
	return e
}

// fail ends the stream for both directions at once.
func (s *stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed(err)
}

func (s *stream) failed(err error) {
	if s.err == nil {
		s.err = err
	}
	if s.onFail != nil {
		go s.onFail(s.err)
		s.onFail = nil
	}
	s.retire()
}

// Abort implements fabric.Confirmer: no FIN is sent.
func (s *stream) Abort(err error) { s.fail(err) }

// OnFail implements fabric.Confirmer.
func (s *stream) OnFail(call func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		go call(s.err)
		return
	}
	s.onFail = call
}

// Confirmed implements fabric.Confirmer, by what each message of the other side says.
func (s *stream) Confirmed() (written, read uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &s.out
	return o.total, o.total - uint64(o.sent-(o.allowed-o.window))
}

// Close ends this end; what was written arrives, and then io.EOF.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.finish()
		s.wake()
	}
	return nil
}

// finish sends FIN, or sees to it that it is sent; the caller holds the lock.
func (s *stream) finish() {
	if s.out.finish || s.retired {
		return
	}
	s.out.finish = true
	s.sendDue()
}

// sendDue sends what is owed to the other side and cannot wait, and retires a
// stream that is through.
func (s *stream) sendDue() {
	if s.retired {
		return
	}
	if s.in.owed && s.control(kindCredit, nil) {
		s.in.owed = false
	}
	if s.out.finish && !s.out.finSent && s.control(kindFin, nil) {
		s.out.finSent, s.out.finAt = true, s.out.next
	}
	if s.out.finSent && s.out.done >= s.out.finAt {
		if s.ended {
			s.retire()
		} else if s.linger == nil {
			s.linger = time.AfterFunc(lingerTime, s.through)
		}
	}
}

func (s *stream) through() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retire()
}

// unreadable says why a Read would fail, or nil if it may wait.
func (s *stream) unreadable() error {
	switch {
	case s.closed:
		return net.ErrClosed
	case s.readBy.over():
		return os.ErrDeadlineExceeded
	case s.in.size > 0 || s.granted != nil && !s.retired:
		return nil
	case s.ended && s.granted == nil:
		return io.EOF
	case s.ended && s.err == nil:
		return errLeft // with memory of its that was still to be read
	}
	return s.err
}

// Read takes what has come, waiting for the first byte.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		err := s.unreadable()
		switch {
		case err != nil:
			return 0, err
		case len(p) == 0:
			return 0, nil
		case s.in.size > 0:
			n := s.in.take(p)
			if s.in.returns(s.mine.window) {
				s.in.owed = true
				s.sendDue()
			}
			return n, nil
		case s.granted != nil && !s.fetches:
			return s.fetch(p)
		}
		s.readable.Wait()
	}
}

// SetDeadline is that of net.Conn. A Write that is cut off by it while the
// other side reads its memory ends the stream.
func (s *stream) SetDeadline(at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readBy.set(at, s)
	s.writeBy.set(at, s)
	return nil
}

// SetReadDeadline is that of net.Conn.
func (s *stream) SetReadDeadline(at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readBy.set(at, s)
	return nil
}

// SetWriteDeadline is that of net.Conn; see SetDeadline.
func (s *stream) SetWriteDeadline(at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeBy.set(at, s)
	return nil
}

// deadline is when one direction stops waiting.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) over() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// set needs the stream's lock.
func (d *deadline) set(at time.Time, s *stream) {
	d.at = at
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if !at.IsZero() {
		d.timer = time.AfterFunc(time.Until(at), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.wake()
		})
	}
	s.wake()
}

// received takes a message of the other side, or the failure of a receive.
func (s *stream) received(c *verbs.Completion, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.retired:
		return
	case c.Status != verbs.Success:
		s.failed(s.cause(c.Status))
		return
	}
	b = b[:min(int(c.Length), len(b))]
	m, ok := withImmediate(c.Imm, s.out.allowed-s.out.window, b), true
	if c.Flags&verbs.HasImm == 0 {
		m, ok = parseMessage(b)
	}
	if !ok || m.tag != s.mine.tag {
		return // of another stream, which had this number before
	}
	s.out.credit(m.consumed)
	s.receive(m)
	s.writable.Broadcast()
	if s.awaiting && s.in.ready {
		s.accept()
	}
}

// receive does what a message says; the caller holds the lock.
func (s *stream) receive(m message) {
	switch m.kind {
	case kindReady:
		s.in.ready = true
	case kindData:
		if !s.in.put(m.body, int(s.mine.window)) {
			s.failed(errBreach)
		}
		s.readable.Broadcast()
	case kindCredit:
	case kindFin:
		s.ended = true
		s.finish()
		s.sendDue()
		s.wake()
	case kindRendezvous:
		g, ok := parseGrant(m.body)
		if !ok || s.granted != nil {
			s.failed(errBreach)
			return
		}
		s.granted = g
		s.readable.Broadcast()
	case kindRelease:
		if s.loan == nil {
			s.failed(errBreach)
			return
		}
		s.loan.returned = true
	}
}

// accept gives the stream to the sink, without the lock.
func (s *stream) accept() {
	s.awaiting = false
	if s.linger != nil {
		s.linger.Stop()
		s.linger = nil
	}
	s.mu.Unlock()
	taken := s.l.f.accept(s)
	s.mu.Lock()
	if !taken {
		s.closed = true
		s.retire()
	}
}

// completed takes the end of a work request, and so of all before it.
func (s *stream) completed(c *verbs.Completion) {
	if uint32(c.ID>>32) != s.serial {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return
	}
	if c.Status != verbs.Success {
		if c.Status != verbs.Flushed || s.err == nil {
			s.failed(s.cause(c.Status))
		}
		return
	}
	s.out.complete(uint32(c.ID))
	s.sendDue()
	s.writable.Broadcast()
	if s.fetches {
		s.readable.Broadcast()
	}
}

// cause puts a failed work request into words.
func (s *stream) cause(status verbs.Status) error {
	if down := s.l.f.down(); down != nil {
		return fmt.Errorf("ib: %w: %v", down, status)
	}
	if status == verbs.Flushed { // what made it fail is told by an event, which may come later
		return fmt.Errorf("ib: queue pair %d to %d of %s has failed", s.mine.qpn, s.theirs.qpn, s.l.dev.ctx.Device())
	}
	return fmt.Errorf("ib: %v (queue pair %d to %d)", status, s.mine.qpn, s.theirs.qpn)
}
