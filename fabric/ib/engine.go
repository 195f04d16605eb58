package ib

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"ibrun/cgo/verbs"
)

// sends is a completion queue of several queue pairs.
type sends struct {
	cq     *verbs.CQ
	number int
	used   int
}

// cookie is the bit of a queue in engine.due; many queues share the last one.
func (q *sends) cookie() uint64 { return uint64(min(1+q.number, 63)) }

// engine is what the streams of an endpoint share: one shared receive queue, its
// memory, completion queues, and the goroutine that serves them. It
// outlives the endpoint until the last stream has gone.
//
//	open --leave--> leaving --no queue pair is in use--> closed by its goroutine
type engine struct {
	f       *Fabric
	dev     *device
	cookie  uint64
	channel *verbs.Channel
	cq      *verbs.CQ // of receives
	srq     *verbs.SRQ
	fetches *bufferPool
	filling sync.WaitGroup

	mu      sync.Mutex
	rings   []ring
	queues  []*sends
	free    []*verbs.MR // of ends that are gone
	spare   []*queuePair
	inUse   int // ends that are neither spare nor gone
	serial  uint32
	byQPN   map[uint32]*stream
	calls   map[callKey]*stream // nil: it is being made
	retired []*stream
	leaving bool
	fatal   error // why there will be no stream any more

	// Of the goroutine.
	due      uint64 // queues that have said that they have something, by cookie
	again    uint64 // those that may have more
	empty    int    // polls in a row that found nothing
	ends     [pollBatch]verbs.Completion
	reposts  []verbs.Receive // receives that are free and not posted yet
	heldBack int             // that many, so that one crossing into C posts several
}

func randomPSN() uint32 { return rand.Uint32() & (1<<24 - 1) }

// startEngine returns what streams need, made when the first one is wanted.
func (f *Fabric) startEngine() (*engine, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.engine != nil || f.ending.Err() != nil {
		return f.engine, f.closedErr()
	}
	l := &engine{f: f, dev: f.dev, cookie: rand.Uint64(), due: 1, byQPN: map[uint32]*stream{},
		calls: map[callKey]*stream{}}
	if err := l.open(); err != nil {
		l.close()
		return nil, fmt.Errorf("ib: port %v: %w", &f.dev.port, err)
	}
	f.dev.hold()
	f.engine = l
	go l.serve()
	l.refill()
	return l, nil
}

func (l *engine) open() (err error) {
	if l.channel, err = l.dev.ctx.NewChannel(); err != nil {
		return err
	}
	size := mostShared
	if most := l.dev.limits.MaxSharedWork; most > 0 {
		size = min(size, most)
	}
	if l.cq, err = l.dev.ctx.NewCQ(size+1, l.channel, 0); err != nil {
		return err
	}
	if l.srq, err = l.dev.pd.NewSRQ(size); err != nil {
		return err
	}
	l.fetches = newBufferPool(l.f)
	first := min(firstShared, size)
	l.heldBack = first / 8
	l.reposts = make([]verbs.Receive, 0, l.heldBack+pollBatch)
	return l.addShared(first)
}

// addShared posts more shared receives; the caller holds the lock, or is alone.
func (l *engine) addShared(slots int) error {
	mr, err := l.f.register(slots*piece, verbs.LocalWrite)
	if err != nil {
		return err
	}
	r := ring{mr: mr, slots: slots}
	if n := len(l.rings); n > 0 {
		r.first = l.rings[n-1].first + l.rings[n-1].slots
	}
	l.rings = append(l.rings, r)
	batch := make([]verbs.Receive, slots)
	for i := range batch {
		batch[i] = r.request(r.first + i)
	}
	_, err = l.srq.Post(batch)
	return err
}

// ringOf is where a slot is.
func (l *engine) ringOf(slot int) (r ring) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r = range l.rings {
		if slot < r.first+r.slots {
			break
		}
	}
	return r
}

// newQueuePair makes a queue pair in Init; the caller holds the lock.
func (l *engine) newQueuePair() (_ *queuePair, err error) {
	e := &queuePair{} // no result: returns of nil would hide it from what follows
	defer func() {
		if err != nil {
			l.discard(e)
		}
	}()
	for _, q := range l.queues {
		if q.used < perCQ {
			e.queue = q
		}
	}
	if e.queue == nil {
		q := &sends{number: len(l.queues)}
		// Half as many again: what was flushed of those that are gone may still be there.
		if q.cq, err = l.dev.ctx.NewCQ(perCQ*depth*3/2, l.channel, q.cookie()); err != nil {
			return nil, err
		}
		if err = q.cq.Arm(); err != nil {
			q.cq.Close()
			return nil, err
		}
		l.queues, e.queue = append(l.queues, q), q
	}
	e.queue.used++
	if n := len(l.free); n > 0 {
		e.mr, l.free = l.free[n-1], l.free[:n-1]
	} else if e.mr, err = l.f.register(endMemory, verbs.LocalWrite); err != nil {
		return nil, err
	}
	if e.qp, err = newQP(l.dev.pd, verbs.QPConfig{
		Type: verbs.RC, Send: e.queue.cq, Receive: l.cq, Shared: l.srq, MaxSend: depth, MaxInline: inlineBytes,
	}); err != nil {
		return nil, err
	}
	l.f.counters.made.Add(1)
	at := &l.dev.at
	err = e.qp.Modify(verbs.QPState{State: verbs.Init, Port: at.port, PKeyIndex: at.pkey,
		Access: verbs.LocalWrite | verbs.RemoteRead})
	return e, err
}

// discard frees a queue pair; the caller holds the lock.
func (l *engine) discard(e *queuePair) {
	if e.qp != nil {
		e.qp.Close()
	}
	if e.queue != nil {
		e.queue.used--
	}
	switch {
	case e.mr == nil:
	case len(l.free) < spares:
		l.free = append(l.free, e.mr)
	default:
		l.f.unregister(e.mr)
	}
}

// take returns a queue pair that the caller gives back with drop or as a stream's.
func (l *engine) take() (*queuePair, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal != nil {
		return nil, l.fatal
	}
	e, err := (*queuePair)(nil), error(nil)
	if n := len(l.spare); n > 0 {
		e, l.spare = l.spare[n-1], l.spare[:n-1]
	} else {
		l.f.counters.cold.Add(1)
		e, err = l.newQueuePair()
	}
	if err == nil {
		l.used(+1)
		if posted := l.posted(); posted < l.srq.Size() && posted < l.inUse*sharedBy {
			_ = l.addShared(min(firstShared, l.srq.Size()-posted)) // fewer will do, too
		}
	}
	return e, err
}

// posted is how many shared receives there are.
func (l *engine) posted() int {
	last := l.rings[len(l.rings)-1]
	return last.first + last.slots
}

// used counts the queue pairs in use. Where waits are polls, the goroutine polls from the first one
// on. The caller holds the lock.
func (l *engine) used(more int) {
	l.inUse += more
	if was := l.f.streaming.Swap(l.inUse > 0); !was && l.f.cfg.Spin {
		l.poke()
	}
}

// drop gives back a queue pair that became no stream.
func (l *engine) drop(e *queuePair) {
	l.mu.Lock()
	l.discard(e)
	l.used(-1)
	l.mu.Unlock()
	l.poke()
}

// refill makes spare ends in the background.
func (l *engine) refill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leaving || l.fatal != nil {
		return
	}
	l.filling.Go(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for len(l.spare) < spares && !l.leaving {
			e, err := l.newQueuePair()
			if err != nil {
				return // whoever needs one will hear of it
			}
			l.spare = append(l.spare, e)
		}
	})
}

// leave is the endpoint's end: streams that nobody has yet end, others live on.
func (l *engine) leave() {
	l.mu.Lock()
	l.leaving = true
	l.mu.Unlock()
	for _, s := range l.all() {
		s.orphan()
	}
	l.poke()
}

// retire lets the goroutine free a stream's queue pair.
func (l *engine) retire(s *stream) {
	l.mu.Lock()
	l.retired = append(l.retired, s)
	l.mu.Unlock()
	l.poke()
}

// poke ends the goroutine's wait.
func (l *engine) poke() { _ = l.channel.SetDeadline(past) }

// add makes a stream of a queue pair that is connected. One that we were called for
// is known by its key, too.
func (l *engine) add(e *queuePair, mine, theirs side, key *callKey) *stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serial++
	s := newStream(l, e, l.serial, mine, theirs)
	l.byQPN[e.qp.Number()] = s
	if key != nil {
		s.key, s.awaiting = *key, true
		l.calls[*key] = s
	}
	return s
}

func (l *engine) of(qpn uint32) *stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byQPN[qpn]
}

// sweep frees the queue pairs of streams that are through. It reports whether
// nothing is left to do for ever.
func (l *engine) sweep() bool {
	l.mu.Lock()
	retired := l.retired
	l.retired = nil
	l.mu.Unlock()
	for _, s := range retired {
		e := s.detach()
		if e == nil {
			continue
		}
		l.mu.Lock()
		delete(l.byQPN, e.qp.Number())
		delete(l.calls, s.key)
		l.discard(e)
		l.used(-1)
		l.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaving && l.inUse == 0 && len(l.retired) == 0 // the last one pokes nobody when it is gone
}

// breaks ends all streams for good.
func (l *engine) breaks(err error) {
	l.mu.Lock()
	if l.fatal == nil {
		l.fatal = err
	}
	l.mu.Unlock()
	l.failAll(err)
}

// all is the streams there are.
func (l *engine) all() []*stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.byQPN))
}

func (l *engine) failAll(err error) {
	for _, s := range l.all() {
		s.fail(err)
	}
}

// close frees everything; the goroutine has ended, or was never there.
func (l *engine) close() {
	l.filling.Wait()
	for _, e := range l.spare {
		e.qp.Close()
		l.f.unregister(e.mr)
	}
	for _, mr := range l.free {
		l.f.unregister(mr)
	}
	for _, q := range l.queues {
		q.cq.Close()
	}
	if l.fetches != nil {
		l.fetches.close()
	}
	if l.srq != nil {
		l.srq.Close()
	}
	for _, r := range l.rings {
		l.f.unregister(r.mr)
	}
	if l.cq != nil {
		l.cq.Close()
	}
	if l.channel != nil {
		l.channel.Close()
	}
}

// queuePair is a queue pair in state Init with its send memory.
type queuePair struct {
	qp    *verbs.QP
	mr    *verbs.MR
	queue *sends
	way   way // to its peer, once there is one
	sl    uint8
}
