package lazy

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"ibrun/fabric"
	"ibrun/internal/poll"
	"ibrun/lazy/peer"
)

// stream sends and receives messages on a reliable byte stream. Each message follows a head with its length.
type stream struct {
	conn  fabric.Stream
	token peer.Token
	start uint8         // number of restarts of the peer when the stream was opened
	turn  chan struct{} // capacity 1: the goroutine that has put a value in may write
	buf   []byte        // buffer for a head and a message; used by the goroutine that may write
	mu    sync.Mutex    // protects err and kept
	err   error         // reason that the stream has ended, or nil
	done  chan struct{} // closed when err is set

	kept *keeper // retains messages until the peer confirms them; nil if unconfirmed messages are not sent again

	spin poll.Spinner // polls before the reader of the stream sleeps

	// Table.fmu protects the following fields.
	came    uint64 // number of messages that this rank has received by the stream
	resumed bool   // the stream has failed, and the retained messages have been returned by resume
	peers   uint64 // number of messages that the peer had received when the stream failed
}

func newStream(c fabric.Stream, token peer.Token, start uint8) *stream {
	return &stream{conn: c, token: token, start: start, turn: make(chan struct{}, 1), done: make(chan struct{})}
}

// keep makes s retain messages until the peer has read them, so that they can be sent again. It returns false if the
// fabric does not report which bytes have arrived.
func (s *stream) keep() (ok bool) {
	c, ok := s.conn.(fabric.Confirmer)
	if ok {
		s.kept = &keeper{conn: c}
	}
	return ok
}

// send writes one message. If s retains messages, send returns the number of m, or 0 if it has not begun to write m. It
// returns the error of ctx only if it has not begun to write.
func (s *stream) send(ctx context.Context, m []byte) (number uint64, err error) {
	if err := acquire(ctx, s.turn); err != nil { // if the stream fails, the current sender frees the turn
		return 0, err
	}
	defer func() { <-s.turn }()
	if err := s.cause(); err != nil {
		return 0, err
	}
	if number, err = s.begin(m); err != nil {
		return 0, err
	}
	if err = s.write(m); err == nil {
		err = s.wrote(m)
	}
	return number, err
}

// acquire sends a value to turn, a channel of capacity 1 that serves as a lock. The caller must receive the value
// later. If the lock is free, acquire succeeds even if ctx has ended.
func acquire(ctx context.Context, turn chan<- struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin retains m before it is written, and returns its number. It returns 0 if s does not retain messages.
func (s *stream) begin(m []byte) (number uint64, err error) {
	if s.kept == nil {
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	return s.kept.begin(m), nil
}

// wrote records that m has been written. It returns the error of the stream if the stream has failed and m is not
// retained.
func (s *stream) wrote(m []byte) error {
	if s.kept == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil && !s.kept.holds(s.kept.begun) {
		return s.err
	}
	s.kept.wrote(m)
	return nil
}

// write writes one message. The caller has acquired s.turn.
func (s *stream) write(m []byte) error {
	s.buf = appendHead(s.buf[:0], len(m))
	if len(m) <= smallMessage {
		s.buf = append(s.buf, m...)
		return s.failed(write(s.conn, s.buf))
	}
	if c, ok := s.conn.(net.Conn); ok {
		_, err := (&net.Buffers{s.buf, m}).WriteTo(c)
		return s.failed(err)
	}
	return s.failed(errors.Join(write(s.conn, s.buf), write(s.conn, m)))
}

func write(w io.Writer, b []byte) error {
	_, err := w.Write(b)
	return err
}

// mark writes the end mark of this direction.
func (s *stream) mark(ctx context.Context) error {
	if err := acquire(ctx, s.turn); err != nil {
		return err
	}
	defer func() { <-s.turn }()
	return s.failed(write(s.conn, binary.BigEndian.AppendUint32(nil, endMark)))
}

// failed calls fail if err is not nil, and returns err.
func (s *stream) failed(err error) error {
	if err != nil {
		s.fail(err)
	}
	return err
}

// cause returns the error with which the stream has ended, or nil.
func (s *stream) cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// fail closes the stream with err. It does nothing if the stream has ended already.
func (s *stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		close(s.done)
		s.conn.Close()
	}
}

// writeSome writes as much of b as the stream accepts without blocking, and returns the number of bytes.
func writeSome(to fabric.Stream, b []byte) (n int, err error) {
	switch c := to.(type) {
	case fabric.TryWriter:
		return c.TryWrite(b)
	case syscall.Conn:
		raw, err := c.SyscallConn()
		if err != nil {
			return 0, err
		}
		var fail error
		err = raw.Write(func(fd uintptr) bool {
			n, fail = unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
			return true
		})
		if fail == unix.EAGAIN || fail == unix.EINTR {
			n, fail = 0, nil
		}
		return max(n, 0), errors.Join(err, fail)
	}
	return 0, errors.ErrUnsupported
}

// try writes as much of a message as the stream accepts without blocking. A goroutine writes the rest, if any. If
// another sender is at work or the stream accepts nothing now, taken is false and err is nil.
func (s *stream) try(m []byte) (taken bool, err error) {
	select {
	case s.turn <- struct{}{}:
	default:
		return false, nil
	}
	n := 0
	if err = s.cause(); err == nil {
		s.buf = append(appendHead(s.buf[:0], len(m)), m...)
		n, err = s.writeKept(m)
		_ = s.failed(err)
	}
	if err != nil || n == 0 || n == len(s.buf) {
		<-s.turn
		return err == nil && n > 0, err
	}
	rest := s.buf[n:]
	s.buf = nil
	go func() {
		defer func() { <-s.turn }()
		_ = s.failed(write(s.conn, rest))
	}()
	return true, nil
}

// writeKept writes as much of s.buf, which holds m with its head, as the stream accepts without blocking. If it has
// written something and s retains messages, it retains m.
func (s *stream) writeKept(m []byte) (n int, err error) {
	if s.kept == nil {
		return writeSome(s.conn, s.buf)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	written, _ := s.kept.conn.Confirmed()
	n, err = writeSome(s.conn, s.buf)
	if n > 0 {
		s.kept.begun++
		s.kept.add(m, written+uint64(len(s.buf)))
		_, read := s.kept.conn.Confirmed()
		s.kept.prune(read)
	}
	return n, err
}

// stop aborts a stream that retains messages, with the error why. The abort is not reported to the peer.
func (s *stream) stop(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.conn.Abort(why)
	if s.err == nil {
		s.err = why
		close(s.done)
	}
}

// resume returns the retained messages that the peer does not have. have is the number of messages that the peer has
// received.
func (s *stream) resume(have uint64) [][]byte {
	s.resumed, s.peers = true, have
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.after(have)
}

// unsure reports whether the peer may not have received a message that was written. The stream must retain messages.
func (s *stream) unsure() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, read := s.kept.conn.Confirmed()
	s.kept.prune(read)
	return len(s.kept.list) > 0
}

// holds reports whether the message with the given number is retained.
func (s *stream) holds(number uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.holds(number)
}
