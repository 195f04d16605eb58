package ib

import (
	"net"
	"sync"

	"ibrun/cgo/verbs"
)

const (
	// rendezvousLength is the length of a write from which the other side reads it
	// where it is.
	rendezvousLength = 64 << 10
	fetchPiece       = 256 << 10
	fetchAhead       = 4  // reads under way for one Read
	mostPieces       = 16 // of all streams
)

// bufferPool is registered memory that RDMA reads land in. It is the fabric's own, so
// a registration that is kept can never be of memory that was freed.
type bufferPool struct {
	f     *Fabric
	turns chan struct{} // capacity mostPieces: who holds one may have a piece

	mu   sync.Mutex
	free []*verbs.MR
}

func newBufferPool(f *Fabric) *bufferPool {
	return &bufferPool{f: f, turns: make(chan struct{}, mostPieces)}
}

// get returns a piece, or nil. It waits if it may.
func (p *bufferPool) get(wait bool) (*verbs.MR, error) {
	if wait {
		p.turns <- struct{}{} // those who hold pieces wait for the device alone
	} else {
		select {
		case p.turns <- struct{}{}:
		default:
			return nil, nil
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		mr := p.free[n-1]
		p.free = p.free[:n-1]
		return mr, nil
	}
	mr, err := p.f.register(fetchPiece, verbs.LocalWrite)
	if err != nil {
		<-p.turns
	}
	return mr, err
}

func (p *bufferPool) put(mr *verbs.MR) {
	p.mu.Lock()
	p.free = append(p.free, mr)
	p.mu.Unlock()
	<-p.turns
}

func (p *bufferPool) close() {
	for _, mr := range p.free {
		p.f.unregister(mr)
	}
}

// loan is our memory that the other side reads.
type loan struct{ returned bool }

// rendezvous lets the other side read p where it is, and waits until it has. Not ok:
// nothing was done, and p can go another way. The memory is registered for this
// time only. The caller holds the lock, and is the writer.
func (s *stream) rendezvous(p []byte) (ok bool, err error) {
	if err := s.unwritable(); err != nil {
		return true, err
	}
	s.mu.Unlock()
	mr, err := s.l.dev.pd.Register(p, verbs.RemoteRead)
	s.mu.Lock()
	if err != nil {
		return false, nil // as far as locked memory is short, pieces do it
	}
	s.l.f.counters.pinned.Add(int64(len(p)))
	defer func() {
		mr.Close()
		s.l.f.counters.pinned.Add(-int64(len(p)))
	}()
	g := grant{addr: mr.Addr(), key: mr.RKey(), left: uint64(len(p))}
	l := &loan{}
	for s.loan == nil {
		if err := s.unwritable(); err != nil {
			return true, err
		}
		if _, requests := s.room(); requests > 0 && s.control(kindRendezvous, g.append(nil)) {
			s.loan = l
			break
		}
		s.writable.Wait()
	}
	for !l.returned {
		if err := s.unwritable(); err != nil {
			s.failed(err) // part of p may have been read: there is no going on
			return true, err
		}
		s.writable.Wait()
	}
	s.loan = nil
	return true, nil
}

// read is one RDMA read under way.
type read struct {
	mr   *verbs.MR
	size int
	at   uint32 // number of its work request
}

// fetch reads memory of the other side into p, some pieces ahead. It returns
// when p is full or nothing is left. The caller holds the lock.
func (s *stream) fetch(p []byte) (n int, err error) {
	s.fetches = true
	defer func() {
		s.fetches = false
		s.readable.Broadcast()
	}()
	var free []*verbs.MR
	s.mu.Unlock()
	for i := range fetchAhead {
		if i > 0 && i*fetchPiece >= len(p) {
			break
		}
		mr, failed := s.l.fetches.get(i == 0)
		if mr == nil {
			err = failed
			break
		}
		free = append(free, mr)
	}
	s.mu.Lock()
	if len(free) == 0 {
		s.failed(err)
		return 0, err
	}
	all := free
	defer func() {
		for _, mr := range all {
			s.l.fetches.put(mr)
		}
	}()
	free = append([]*verbs.MR(nil), all...)
	g, asked := s.granted, 0
	var under []read
	for {
		for len(free) > 0 && asked < len(p) && g.left > 0 && s.pair != nil && !s.retired &&
			s.out.next-s.out.done < depth-2 {
			r := read{mr: free[0], size: min(fetchPiece, len(p)-asked, int(min(g.left, 1<<30))), at: s.out.next}
			s.out.batch[0] = verbs.Send{
				ID: uint64(s.serial)<<32 | uint64(r.at), Addr: r.mr.Addr(), Length: uint32(r.size), LKey: r.mr.LKey(),
				RemoteAddr: g.addr, RKey: g.key, Op: verbs.OpRead, Flags: s.out.signal(false, true),
			}
			s.out.next++
			if !s.post(s.out.batch[:1]) {
				break
			}
			free, under = free[1:], append(under, r)
			asked += r.size
			g.addr += uint64(r.size)
			g.left -= uint64(r.size)
		}
		if len(under) == 0 {
			break
		}
		r := under[0]
		for r.at-s.out.done < 1<<31 { // not through
			if s.pair == nil {
				return n, s.broken()
			}
			s.readable.Wait()
		}
		s.mu.Unlock()
		copy(p[n:], r.mr.Bytes()[:r.size])
		s.mu.Lock()
		n += r.size
		under, free = under[1:], append(free, r.mr)
	}
	if g.left == 0 && s.granted == g {
		if !s.control(kindRelease, nil) {
			return n, s.broken()
		}
		s.granted = nil
	}
	if n == 0 {
		return 0, s.broken()
	}
	return n, nil
}

// broken is why a stream cannot go on.
func (s *stream) broken() error {
	switch {
	case s.closed:
		return net.ErrClosed
	case s.err != nil:
		return s.err
	}
	return errLeft
}
