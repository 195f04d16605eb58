package ib

import (
	"net"
	"os"

	"ibrun/cgo/verbs"
)

// Write returns when all of p is on its way. From rendezvousLength on it is read
// from where it is, and Write waits for that.
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

// TryWrite writes as much of p as can go at once.
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

// unwritable says why a Write would fail, or nil if it may wait.
func (s *stream) unwritable() error {
	switch {
	case s.closed:
		return net.ErrClosed
	case s.ended:
		return errLeft
	case s.err != nil:
		return s.err
	case s.writeBy.over():
		return os.ErrDeadlineExceeded
	}
	return nil
}

// room is how many pieces and work requests data may take now.
func (s *stream) room() (free, requests int) {
	o := &s.out
	return pieces - (o.head - o.tail), dataDepth - int(o.next-o.done)
}

// push posts as much of p as there is room for, in one crossing into C, and
// says how much that was; the caller holds the lock.
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
			break // a little later it can be a longer one
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

// work writes a message to memory and makes the request that sends it.
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

// post hands requests to the device. What it refuses ends the stream.
func (s *stream) post(batch []verbs.Send) bool {
	if _, err := s.pair.qp.PostSend(batch); err != nil {
		s.failed(err)
		return false
	}
	return true
}

// control sends a message of the fabric's own if there is room for it; the caller
// holds the lock.
func (s *stream) control(k kind, body []byte) bool {
	if s.pair == nil || s.retired || s.out.next-s.out.done >= depth {
		return false
	}
	s.out.batch[0] = s.work(message{kind: k, body: body}, false, k == kindFin)
	return s.post(s.out.batch[:1])
}
