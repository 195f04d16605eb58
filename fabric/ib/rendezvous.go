package ib

import (
	"net"
	"os"
	"slices"
	"sync"
	"unsafe"

	"ibrun/cgo/verbs"
)

const (
	// rendezvousLength is the length of a write from which the other side reads it
	// where it is.
	rendezvousLength = 64 << 10
	fetchPiece       = 256 << 10
	fetchAhead       = 4  // reads under way for one Read
	mostPieces       = 16 // of all streams
	mostRead         = 1 << 30
	// directLength is the length from which the reader's own memory is registered, and the device
	// writes to it: to copy as much takes longer.
	directLength = 256 << 10
)

// bufferPool is registered memory that RDMA reads land in. It is the fabric's own, so
// a registration that is kept can never be of memory that was freed.
type bufferPool struct {
	f     *Fabric
	turns chan struct{} // capacity mostPieces: who holds one may have a piece

	mu   sync.Mutex
	free []*verbs.MR
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
	defer s.l.f.unregister(mr)
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
	mr   *verbs.MR // a piece, whose bytes are to be copied, or the reader's own memory
	size int
	at   uint32 // number of its work request
}

// target is the part of a reader's memory that the device writes itself: whole pages, as others may
// hold the rest of a page, and a fork lets them have a copy of it that the device does not see. It
// is registered for the time of that read only.
type target struct {
	mr   *verbs.MR // nil: there is none
	from int       // where it begins
}

// aim registers the whole pages of p, if they are worth it and locked memory suffices.
func (s *stream) aim(p []byte) (t target) {
	page := uintptr(os.Getpagesize())
	t.from = int(-uintptr(unsafe.Pointer(unsafe.SliceData(p))) % page)
	whole := (len(p) - t.from) &^ int(page-1)
	if whole < directLength {
		return target{}
	}
	mr, err := s.l.dev.pd.Register(p[t.from:][:whole], verbs.LocalWrite)
	if err != nil {
		return target{}
	}
	s.l.f.counters.pinned.Add(int64(whole))
	t.mr = mr
	return t
}

// next is where the read from a byte on goes that has so many bytes to come, and how long it is.
func (t target) next(at, left int, free []*verbs.MR) (mr *verbs.MR, size int) {
	switch {
	case t.mr != nil && at == t.from:
		return t.mr, len(t.mr.Bytes())
	case t.mr != nil && at < t.from:
		left = t.from - at
	}
	if len(free) == 0 {
		return nil, 0
	}
	return free[0], min(fetchPiece, left)
}

// piecesFor takes pieces for so many bytes: one, which it waits for, and some more.
func (p *bufferPool) piecesFor(bytes int) (all []*verbs.MR, err error) {
	for i := range fetchAhead {
		if i*fetchPiece >= bytes {
			break
		}
		mr, failed := p.get(i == 0)
		if mr == nil {
			err = failed
			break
		}
		all = append(all, mr)
	}
	if len(all) > 0 {
		err = nil // fewer will do
	}
	return all, err
}

// fetch reads memory of the other side into p, some pieces ahead. It returns
// when p is full or nothing is left. The caller holds the lock.
func (s *stream) fetch(p []byte) (n int, err error) {
	s.fetches = true
	defer func() {
		s.fetches = false
		s.readable.Broadcast()
	}()
	g, asked := s.granted, 0
	p = p[:min(uint64(len(p)), g.left, mostRead)]
	s.mu.Unlock()
	own, rest := s.aim(p), len(p)
	if own.mr != nil {
		rest -= len(own.mr.Bytes())
	}
	all, err := s.l.fetches.piecesFor(rest)
	s.mu.Lock()
	defer func() {
		s.mu.Unlock()
		s.l.f.unregister(own.mr) // the device does not write to the memory of own any more
		for _, mr := range all {
			s.l.fetches.put(mr)
		}
		s.mu.Lock()
	}()
	if err != nil {
		s.failed(err)
		return 0, err
	}
	free := slices.Clone(all)
	var under []read
	for {
		for asked < len(p) && s.pair != nil && !s.retired && s.out.next-s.out.done < depth-2 {
			mr, size := own.next(asked, len(p)-asked, free)
			if mr == nil {
				break
			}
			r := read{mr: mr, size: size, at: s.out.next}
			s.out.batch[0] = verbs.Send{
				ID: uint64(s.serial)<<32 | uint64(r.at), Addr: r.mr.Addr(), Length: uint32(r.size), LKey: r.mr.LKey(),
				RemoteAddr: g.addr, RKey: g.key, Op: verbs.OpRead, Flags: s.out.signal(false, true),
			}
			s.out.next++
			if !s.post(s.out.batch[:1]) {
				break
			}
			under = append(under, r)
			if mr != own.mr {
				free = free[1:]
			}
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
		if r.mr != own.mr {
			s.mu.Unlock()
			copy(p[n:], r.mr.Bytes()[:r.size])
			s.mu.Lock()
			free = append(free, r.mr)
		}
		n += r.size
		under = under[1:]
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
