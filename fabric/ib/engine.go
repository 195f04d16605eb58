package ib

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"ibrun/cgo/verbs"
)

// sends represents a completion queue for the sends of up to perCQ queue pairs.
type sends struct {
	cq     *verbs.CQ
	number int // index in engine.queues
	used   int // queue pairs that use the completion queue
}

// cookie returns the bit number of the queue in engine.due. Queues with the numbers 62 and above share bit 63.
func (q *sends) cookie() uint64 { return uint64(min(1+q.number, 63)) }

// engine holds the resources that the streams of an endpoint share: the shared receive queue, its memory, the
// completion queues, and the goroutine that serves them. It outlives the endpoint until its last stream is closed.
//
//	open --leave--> leaving --no queue pair is in use--> closed by its goroutine
type engine struct {
	f       *Fabric
	dev     *device
	cookie  uint64 // secret in the endpoint's offer, which a dialler has to know
	channel *verbs.Channel
	cq      *verbs.CQ // completion queue of receives
	srq     *verbs.SRQ
	fetches *bufferPool    // buffers for RDMA reads
	filling sync.WaitGroup // goroutines of refill

	mu      sync.Mutex
	rings   rings
	queues  []*sends
	free    []*verbs.MR         // send memory of discarded queue pairs, to be used again
	spare   []*queuePair        // made in advance
	inUse   int                 // queue pairs that are neither spare nor discarded
	serial  uint32              // number of the last stream
	byQPN   map[uint32]*stream  // streams by the number of their queue pair
	calls   map[callKey]*stream // streams that peers have dialled; nil while listen makes the stream
	retired []*stream           // streams whose queue pairs the goroutine has to free
	leaving bool                // the endpoint is closed
	fatal   error               // reason that all streams have failed and no new one can be opened, or nil

	// Used by the goroutine only.
	due      uint64 // bits of queues that have completions: bit 0 for receives, others by sends.cookie
	again    uint64 // bits of queues that may have more completions
	empty    int    // consecutive polls that found nothing
	ends     [pollBatch]verbs.Completion
	reposts  []verbs.Receive // free receives that are not posted yet
	heldBack int             // number of free receives that one call into C posts together
}

// randomPSN returns a random initial packet sequence number of 24 bits.
func randomPSN() uint32 { return rand.Uint32() & (1<<24 - 1) }

// startEngine returns the engine. The first call makes it. After Close it returns an error.
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

// open makes the completion channel, the queues and the first shared receives. If it fails, the caller calls close.
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
	l.fetches = &bufferPool{f: l.f, turns: make(chan struct{}, mostPieces)}
	first := min(firstShared, size)
	l.heldBack = first / 8
	l.reposts = make([]verbs.Receive, 0, l.heldBack+pollBatch)
	return l.addShared(first)
}

// addShared allocates and posts slots more shared receives. The caller holds the lock, or no other goroutine knows l
// yet.
func (l *engine) addShared(slots int) error {
	batch, err := l.rings.add(l.f, slots, piece)
	if err == nil {
		_, err = l.srq.Post(batch)
	}
	return err
}

// ringOf returns the ring that contains a slot.
func (l *engine) ringOf(slot int) *ring {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rings.of(slot)
}

// newQueuePair makes a queue pair in state Init with send memory and a completion queue. The caller holds the lock.
func (l *engine) newQueuePair() (_ *queuePair, err error) {
	e := &queuePair{} // not a named result, which "return nil, err" would clear before the deferred call
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
		// The queue has 50 % more entries than its queue pairs have requests, because flushed completions of discarded
		// queue pairs may still be in it.
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

// discard frees a queue pair. It keeps the send memory of up to spares queue pairs for new ones. The caller holds the
// lock.
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

// take returns a spare queue pair, or a new one if there is none. The caller passes it to add or to drop.
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
		if posted := l.rings.slots(); posted < l.srq.Size() && posted < l.inUse*sharedBy {
			_ = l.addShared(min(firstShared, l.srq.Size()-posted)) // on failure, the streams share fewer receives
		}
	}
	return e, err
}

// used adds more, which may be negative, to the number of queue pairs in use. With Config.Spin, it wakes the goroutine
// for the first one, so that it starts to poll. The caller holds the lock.
func (l *engine) used(more int) {
	l.inUse += more
	if was := l.f.streaming.Swap(l.inUse > 0); !was && l.f.cfg.Spin {
		l.poke()
	}
}

// drop discards a queue pair from take for which no stream was made.
func (l *engine) drop(e *queuePair) {
	l.mu.Lock()
	l.discard(e)
	l.used(-1)
	l.mu.Unlock()
	l.poke()
}

// refill makes queue pairs in a goroutine until there are spares of them.
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
				return // take tries again and returns the error
			}
			l.spare = append(l.spare, e)
		}
	})
}

// leave is called when the endpoint is closed. It ends streams that have not been passed to the sink. Open streams stay
// usable until they are closed.
func (l *engine) leave() {
	l.mu.Lock()
	l.leaving = true
	l.mu.Unlock()
	for _, s := range l.all() {
		s.orphan()
	}
	l.poke()
}

// retire makes the goroutine free the queue pair of a stream.
func (l *engine) retire(s *stream) {
	l.mu.Lock()
	l.retired = append(l.retired, s)
	l.mu.Unlock()
	l.poke()
}

// poke wakes the goroutine if it waits for completions.
func (l *engine) poke() { _ = l.channel.SetDeadline(past) }

// add makes a stream from a connected queue pair. If a peer has dialled it, key is not nil: the stream is registered
// under the key and awaits its first message.
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

// of returns the stream whose queue pair has the number qpn, or nil.
func (l *engine) of(qpn uint32) *stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byQPN[qpn]
}

// sweep frees the queue pairs of retired streams. It reports whether the engine can be closed: the endpoint is closed
// and no queue pair is in use.
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
	return l.leaving && l.inUse == 0 && len(l.retired) == 0 // no poke follows the last discard, so check here
}

// breaks fails all streams and prevents new ones. The first err is the one that take returns.
func (l *engine) breaks(err error) {
	l.mu.Lock()
	if l.fatal == nil {
		l.fatal = err
	}
	l.mu.Unlock()
	for _, s := range l.all() {
		s.Abort(err)
	}
}

// all returns all streams whose queue pairs have not been freed.
func (l *engine) all() []*stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.byQPN))
}

// close frees all resources of the engine. The goroutine has ended or was never started.
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
		for _, mr := range l.fetches.free {
			l.f.unregister(mr)
		}
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

// queuePair represents a reliable queue pair with its send memory. It is in state Init until connect.
type queuePair struct {
	qp    *verbs.QP
	mr    *verbs.MR // endMemory bytes for messages to be sent
	queue *sends    // completion queue of its sends
	way   way       // source address of packets to the peer; set by Fabric.learn
	sl    uint8     // service level of packets to the peer; set by Fabric.learn
}
