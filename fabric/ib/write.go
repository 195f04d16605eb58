package ib

import (
	"net"
	"os"

	"ibrun/cgo/verbs"
)

// Write returns when all of p has been copied and posted to the device. If p has at least rendezvousLength bytes, the
// peer reads it directly from p by RDMA, and Write waits until the peer has done so. If the memory of p cannot be
// registered, p is copied.
func (s *stream) Write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.writing {
		if err := s.unwritable(); err != nil {
			return 0, err
		}
		s.writable.Wait()
	}
	s.writing = true
	defer func() {
		s.writing = false
		s.writable.Broadcast()
	}()
	if len(p) >= rendezvousLength {
		if ok, err := s.rendezvous(p); ok {
			if err != nil {
				return 0, err
			}
			return len(p), nil
		}
	}
	for {
		if err := s.unwritable(); err != nil || n == len(p) {
			return n, err
		}
		if k := s.push(p[n:]); k > 0 {
			n += k
		} else {
			s.writable.Wait()
		}
	}
}

// TryWrite writes as much of p as is possible without waiting and returns the number of bytes.
func (s *stream) TryWrite(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.unwritable(); err != nil || s.writing {
		return 0, err
	}
	for n < len(p) {
		k := s.push(p[n:])
		if k == 0 {
			break
		}
		n += k
	}
	return n, nil
}

// unwritable returns the error with which a Write fails, or nil if it can go on or wait.
func (s *stream) unwritable() error {
	switch {
	case s.closed:
		return net.ErrClosed
	case s.ended:
		return errLeft
	case s.err != nil:
		return s.err
	case s.late():
		return os.ErrDeadlineExceeded
	}
	return nil
}

// room returns the number of free pieces, and of work requests that data may use now.
func (s *stream) room() (free, requests int) {
	o := &s.out
	return pieces - (o.head - o.tail), dataDepth - int(o.next-o.done)
}

// push posts as much of p as there is room for, with one call into C, and returns the number of bytes. The caller
// holds the lock.
func (s *stream) push(p []byte) (n int) {
	if s.pair == nil || s.retired {
		return 0
	}
	o, batch := &s.out, s.out.batch[:0]
	for n < len(p) && len(batch) < cap(o.batch[:]) {
		free, requests := s.room()
		credit := int(o.allowed - o.sent)
		size := len(p) - n
		if size > piece {
			size = whole
		}
		size = min(size, credit)
		if requests <= 0 || size <= 0 || size < len(p)-n && size < whole/2 {
			break // wait for more credit rather than send a short message
		}
		isPiece := size > small
		if isPiece && free == 0 {
			break
		}
		batch = append(batch, s.work(message{kind: kindData, body: p[n : n+size]}, isPiece, false))
		o.sent += uint32(size)
		o.total += uint64(size)
		n += size
	}
	if len(batch) == 0 || !s.post(batch) {
		return 0
	}
	return n
}

// work copies a message to registered memory and returns the work request that sends it. The message takes a piece if
// isPiece is set, and a small buffer otherwise. If always is set, the request reports its completion.
func (s *stream) work(m message, isPiece, always bool) verbs.Send {
	o, mr := &s.out, s.pair.mr
	m.tag, m.consumed = s.theirs.tag, s.in.consumed
	offset := pieces*piece + int(o.next%depth)*small
	if isPiece {
		offset = o.head % pieces * piece
		o.last[o.head%pieces] = o.next
		o.head++
	}
	w := verbs.Send{
		ID:    uint64(s.serial)<<32 | uint64(o.next),
		Addr:  mr.Addr() + uint64(offset),
		LKey:  mr.LKey(),
		Flags: o.signal(isPiece, always),
	}
	if to := mr.Bytes()[offset:]; m.kind == kindData {
		w.Op, w.Length, w.Imm = verbs.OpSendImm, uint32(copy(to, m.body)), m.immediate()
		s.in.reported = m.consumed / consumedUnit * consumedUnit
	} else {
		w.Op, w.Length = verbs.OpSend, uint32(m.put(to))
		s.in.reported = m.consumed
	}
	if int(w.Length) <= s.pair.qp.Granted().MaxInline {
		w.Flags |= verbs.Inline
	}
	o.next++
	return w
}

// post passes requests to the device. If the device refuses one, the stream fails and post returns false.
func (s *stream) post(batch []verbs.Send) bool {
	if _, err := s.pair.qp.PostSend(batch); err != nil {
		s.failed(err)
		return false
	}
	return true
}

// control sends a message without application data. It reports false if there is no free work request or the stream
// is retired. The caller holds the lock.
func (s *stream) control(k kind, body []byte) bool {
	if s.pair == nil || s.retired || s.out.next-s.out.done >= depth {
		return false
	}
	s.out.batch[0] = s.work(message{kind: k, body: body}, false, k == kindFin)
	return s.post(s.out.batch[:1])
}
