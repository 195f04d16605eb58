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

// Errors of a stream that the peer has closed, or on which the peer has violated the protocol.
var (
	errLeft   = errors.New("ib: the other side is closed")
	errBreach = errors.New("ib: the other side broke the rules of streams")
)

// stream represents one end of a stream of bytes over a reliable queue pair. These are its states:
//
//	awaiting (the peer dialled; its first message has not arrived) --READY received--> open
//	open --Close called, or FIN received--> FIN sent
//	FIN sent --FIN acknowledged, and FIN received or lingerTime passed--> retired
//	any --error--> retired
//	retired --the engine's goroutine frees the queue pair--> detached
type stream struct {
	l      *engine
	serial uint32  // number of the stream in its engine
	key    callKey // key in engine.calls; zero if this side dialled
	mine   side    // parameters of this end
	theirs side    // parameters of the peer's end

	mu       sync.Mutex
	readable sync.Cond
	writable sync.Cond
	pair     *queuePair  // nil once the goroutine of the engine has freed it
	retired  bool        // the stream does not send or receive any more
	awaiting bool        // the peer dialled, and its first message has not arrived
	closed   bool        // this side has called Close
	ended    bool        // the peer has sent FIN; queued bytes can still be read
	err      error       // reason that the stream has failed, or nil
	linger   *time.Timer // ends the wait for the first message, or for the peer's FIN
	deadline time.Time   // time after which Read and Write fail; zero means no deadline
	alarm    *time.Timer // wakes waiting calls at the deadline

	out outgoing
	in  incoming

	onFail  func(error) // called once, in a goroutine of its own, when the stream fails
	writing bool        // a Write is in progress
	fetches bool        // a Read reads memory of the peer by RDMA
	loan    *loan       // memory of this side that the peer may read, or nil
	granted *grant      // memory of the peer that this side may read, or nil
}

// lingerTime is the time that a closed stream waits for the peer's FIN before its queue pair is freed.
const lingerTime = time.Second

// newStream returns an open stream on the connected queue pair e.
func newStream(l *engine, e *queuePair, serial uint32, mine, theirs side) *stream {
	s := &stream{l: l, pair: e, serial: serial, mine: mine, theirs: theirs}
	s.readable.L, s.writable.L = &s.mu, &s.mu
	s.out.allowed, s.out.window = theirs.window, theirs.window
	return s
}

// begin sends READY, the first message of a dialled stream. It tells the listener that this side can receive.
func (s *stream) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.control(kindReady, nil)
}

// await ends the stream if READY does not arrive within the given time. READY may have arrived already: a repeated
// CONNECT is answered as soon as the engine has the stream.
func (s *stream) await(within time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.awaiting && !s.retired {
		s.linger = time.AfterFunc(within, s.orphan)
	}
}

// orphan ends a stream that has not been passed to the sink.
func (s *stream) orphan() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.awaiting {
		s.awaiting, s.closed = false, true
		s.retire()
	}
}

// wake wakes all waiting calls of Read and Write, which then check the state of the stream again.
func (s *stream) wake() {
	s.readable.Broadcast()
	s.writable.Broadcast()
}

// retire ends all use of the queue pair and has the engine's goroutine free it. The caller holds the lock.
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

// detach removes the queue pair from the stream and returns it, or nil. Only the engine's goroutine calls it.
func (s *stream) detach() *queuePair {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.pair
	s.pair = nil
	s.wake()
	return e
}

// Abort implements fabric.Confirmer. It ends both directions of the stream at once with err, without FIN. Bytes that
// have arrived can still be read.
func (s *stream) Abort(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed(err)
}

// failed is Abort for callers that hold the lock.
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

// OnFail implements fabric.Confirmer. If the stream has already failed, call is called at once.
func (s *stream) OnFail(call func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		go call(s.err)
		return
	}
	s.onFail = call
}

// Confirmed implements fabric.Confirmer. The value of read comes from the count that each message of the peer carries.
func (s *stream) Confirmed() (written, read uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &s.out
	return o.total, o.total - uint64(o.sent-(o.allowed-o.window))
}

// Close closes this end. The peer receives all bytes written before, and then io.EOF.
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

// finish sends FIN, or has it sent as soon as there is room. The caller holds the lock.
func (s *stream) finish() {
	if s.out.finish || s.retired {
		return
	}
	s.out.finish = true
	s.sendDue()
}

// sendDue sends a pending credit message and a pending FIN if there is room. When FIN has been sent and received, it
// retires the stream. The caller holds the lock.
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

// through retires the stream when lingerTime has passed.
func (s *stream) through() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retire()
}

// unreadable returns the error with which a Read fails, or nil if it can return bytes or wait.
func (s *stream) unreadable() error {
	switch {
	case s.closed:
		return net.ErrClosed
	case s.late():
		return os.ErrDeadlineExceeded
	case s.in.size > 0 || s.granted != nil && !s.retired:
		return nil
	case s.ended && s.granted == nil:
		return io.EOF
	case s.ended && s.err == nil:
		return errLeft // the peer closed before its memory was read
	}
	return s.err
}

// Read returns the bytes that have arrived, at most len(p). It waits until there is at least one.
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
			if s.in.consumed-s.in.reported >= s.mine.window/2 { // tell the peer after each half of a window
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

// SetDeadline sets the time at which calls of Read and Write fail; the zero time removes it. If the deadline ends a
// Write while the peer reads from the memory of that Write, the stream fails.
func (s *stream) SetDeadline(at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = at
	if s.alarm != nil {
		s.alarm.Stop()
	}
	if !at.IsZero() {
		s.alarm = time.AfterFunc(time.Until(at), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.wake()
		})
	}
	s.wake()
	return nil
}

// late reports whether the deadline has passed.
func (s *stream) late() bool { return !s.deadline.IsZero() && !time.Now().Before(s.deadline) }

// received handles the completion of a receive: a message from the peer in b, or an error.
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
		return // the completion is for an earlier stream whose queue pair had the same number
	}
	s.out.credit(m.consumed)
	s.receive(m)
	s.writable.Broadcast()
	if s.awaiting && s.in.ready {
		s.accept()
	}
}

// receive applies a message to the stream. The caller holds the lock.
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

// accept passes the stream to the sink. The caller holds the lock, which accept releases meanwhile.
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

// completed handles the completion of a work request, which also completes all requests before it.
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

// cause returns the error of a failed work request. The error names the port if the port is down.
func (s *stream) cause(status verbs.Status) error {
	if down := s.l.f.down(); down != nil {
		return fmt.Errorf("ib: %w: %v", down, status)
	}
	if status == verbs.Flushed { // an asynchronous event that contains the cause may arrive later
		return fmt.Errorf("ib: queue pair %d to %d of %s has failed", s.mine.qpn, s.theirs.qpn, s.l.dev.ctx.Device())
	}
	return fmt.Errorf("ib: %v (queue pair %d to %d)", status, s.mine.qpn, s.theirs.qpn)
}
