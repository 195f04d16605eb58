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

// stream carries whole messages over a reliable stream of bytes, each behind its head.
type stream struct {
	conn  fabric.Stream
	token peer.Token
	start uint8         // of the peer: how often it was restarted
	turn  chan struct{} // capacity 1: whose it is may write
	buf   []byte        // of the owner of turn
	mu    sync.Mutex
	err   error
	done  chan struct{} // closed with err

	kept *keeper // retains messages until the peer confirms them; nil if unconfirmed messages are not sent again

	spin poll.Spinner // polls before the reader of the stream sleeps

	// The lock of remote peers protects these fields.
	came    uint64 // number of messages received
	resumed bool   // the stream has failed, and the retained messages have been returned by resume
	peers   uint64 // number of messages that the peer had received when the stream failed
}

func newStream(c fabric.Stream, token peer.Token, start uint8) *stream {
	return &stream{conn: c, token: token, start: start, turn: make(chan struct{}, 1), done: make(chan struct{})}
}

// keep makes a stream keep what is written to it, if the fabric says what has arrived.
func (s *stream) keep() (ok bool) {
	c, ok := s.conn.(fabric.Confirmer)
	if ok {
		s.kept = &keeper{conn: c}
	}
	return ok
}

// send writes one message, whose number it returns; 0: it was not begun. The context is honoured
// until the first byte is on its way.
func (s *stream) send(ctx context.Context, m []byte) (number uint64, err error) {
	if err := acquire(ctx, s.turn); err != nil { // if the stream fails, the sender that has the turn gives it back
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

// acquire takes a turn, which the caller gives back. If the turn is free, acquire succeeds even if ctx has ended.
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

// begin is before a message is written; 0: nothing is kept here.
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

// wrote is after it was written. The error: the stream has failed, and the message may be lost.
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

// write writes one message; the caller owns the turn.
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

// failed records the first error and passes on the one there is.
func (s *stream) failed(err error) error {
	if err != nil {
		s.fail(err)
	}
	return err
}

// cause is why the stream is over, or nil.
func (s *stream) cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// fail ends the stream. The first cause stays.
func (s *stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		close(s.done)
		s.conn.Close()
	}
}

// writeSome writes what a stream takes at once, which may be nothing.
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

// try writes as much of a message as the stream takes at once. If a part of m remains, a goroutine writes it. Try
// returns false and no error if another sender has the turn, or if the stream takes nothing now.
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

// writeKept writes what a stream takes at once of a message, which it keeps if that is something.
// The whole of it, with its head, is in buf.
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

// stop ends a stream whose messages are kept, without a word to the other side.
func (s *stream) stop(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.conn.Abort(why)
	if s.err == nil {
		s.err = why
		close(s.done)
	}
}

// resume returns what has not arrived, now that the peer has said how many messages it has.
func (s *stream) resume(have uint64) [][]byte {
	s.resumed, s.peers = true, have
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.after(have)
}

// unsure reports whether something that was written may not have arrived.
func (s *stream) unsure() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, read := s.kept.conn.Confirmed()
	s.kept.prune(read)
	return len(s.kept.list) > 0
}

func (s *stream) holds(number uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.holds(number)
}
