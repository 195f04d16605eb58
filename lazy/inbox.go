package lazy

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"ibrun/fabric"
	"ibrun/internal/poll"
)

// Message is a received message. From is the slot of the sender.
type Message struct {
	From uint32
	Body []byte // the receiver may keep and change it
}

// driver reads messages from a fabric or a stream. A receiver that waits for messages can call Drive to read them in
// its own goroutine while it holds Turn.
type driver interface {
	Turn() *poll.Turn
	Drive()
	Wake()
}

// drives is a receiver that is calling Drive. It waits for messages from the rank from, or from any rank.
type drives struct {
	d    driver
	from uint32
	any  bool
}

// inbox holds the messages that have arrived and have not been received yet, in their order of arrival.
type inbox struct {
	mu      sync.Mutex
	first   *entry             // oldest message of all peers, or nil
	last    *entry             // newest message of all peers, or nil
	from    map[uint32]*source // by slot of the peer
	start   uint8              // number of restarts of a peer whose source is created now
	waiting []*waiter          // receivers that wait, in the order in which they came
	stream  bool               // the last message arrived by a stream
	recent  driver             // driver of that stream; nil if no receiver may drive it
	driver  fabric.Driver      // reads the datagrams of the fabric; nil if no receiver may drive it
	driving []drives           // receivers that are calling Drive
	err     error              // reason that no more messages will arrive, or nil
	alarms  []error            // errors for the next calls of Recv that find no message

	failures []error         // failures of ranks that were neither returned to a receiver nor acknowledged
	restarts []*RestartError // restarts that have not been reported to the program yet
	unheard  atomic.Int32    // len(restarts); senders read it without mu
}

// source holds the queued messages and the state of one peer.
type source struct {
	queue  []*entry        // oldest first
	bytes  int             // total length of the messages in queue
	room   chan struct{}   // closed when the queue has room again; nil if no goroutine waits for room
	taken  func(bytes int) // called with the size of each message that the program receives; may be nil
	stream bool            // the last message of the peer arrived by a stream
	driver driver          // reads that stream; nil if no receiver may drive it
	err    error           // reason that no more messages will arrive from the peer, or nil
	start  uint8           // number of restarts of the peer; messages with a lower number are dropped
	news   *RestartError   // restart that has not been reported to the program yet, or nil
}

// entry is a queued message. prev and next link all messages of the inbox in their order of arrival.
type entry struct {
	Message
	start      uint8 // number of restarts of the sender when it sent the message
	prev, next *entry
}

// waiter is a receiver that waits because no message was queued.
type waiter struct {
	from   uint32
	any    bool
	woken  chan struct{} // capacity 1; one value is sent when the waiter is removed from inbox.waiting
	got    *entry        // message passed to the receiver; nil if it was woken for another reason
	source *source       // source of got
}

// inboxLimit is the maximum number of bytes that one peer may have in the inbox. While it has more, its stream is not
// read. The last message that was read may exceed the limit.
const inboxLimit = 4 << 20

// newInbox returns an inbox for the rank with the slot own. start is the initial number of restarts of each peer.
func newInbox(own uint32, start uint8) *inbox {
	return &inbox{start: start, from: map[uint32]*source{own: {}}}
}

// source returns the source of a peer. The caller holds b.mu.
func (b *inbox) source(from uint32) *source {
	s := b.from[from]
	if s == nil {
		s = &source{start: b.start}
		b.from[from] = s
	}
	return s
}

// put delivers a message that did not arrive as a datagram of the fabric. The sender had been restarted start times
// when it sent the message. If the sender has been restarted more often since, put drops the message.
func (b *inbox) put(m Message, start uint8) { b.putAll(m.From, [][]byte{m.Body}, start, nil) }

// byStream records that a message of a peer arrives, and whether it arrives by a stream. The caller holds b.mu.
func (b *inbox) byStream(from uint32, stream bool) {
	s := b.source(from)
	b.stream, s.stream, b.recent = stream, stream, s.driver
}

// putAll is like put, for several messages of one peer that a driver has read. It wakes driving receivers once.
func (b *inbox) putAll(from uint32, messages [][]byte, start uint8, by driver) {
	if len(messages) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.source(from).start != start {
		return
	}
	b.byStream(from, true)
	for _, m := range messages {
		b.add(Message{from, m})
	}
	b.wakeDrivers(from, by)
}

// arrived delivers a message that has arrived as a datagram.
func (b *inbox) arrived(m Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.byStream(m.From, false)
	b.add(m)
	b.wakeDrivers(m.From, b.driver)
}

// add passes a message to a waiting receiver or adds it to the queue. The caller holds b.mu.
func (b *inbox) add(m Message) {
	s := b.source(m.From)
	e := &entry{Message: m, start: s.start}
	unknown := b.news(m.From) >= 0 // the restart must be reported to the program first
	for i, w := range b.waiting {
		if (w.any || w.from == m.From) && !unknown {
			b.waiting = slices.Delete(b.waiting, i, i+1)
			w.got, w.source = e, s
			w.woken <- struct{}{}
			return
		}
	}
	s.queue = append(s.queue, e)
	s.bytes += len(m.Body)
	if e.prev = b.last; e.prev == nil {
		b.first = e
	} else {
		e.prev.next = e
	}
	b.last = e
	if unknown {
		b.wakeFirst(false)
	}
}

// full waits while a peer has more than inboxLimit bytes in the inbox. It returns early when done is closed.
func (b *inbox) full(from uint32, done <-chan struct{}) {
	b.mu.Lock()
	s := b.source(from)
	for s.bytes > inboxLimit && b.err == nil {
		if s.room == nil {
			s.room = make(chan struct{})
		}
		room := s.room
		b.mu.Unlock()
		select {
		case <-room:
		case <-done:
			return
		}
		b.mu.Lock()
	}
	b.mu.Unlock()
}

// take waits for a message from the peer from, or from any peer if any is set. While it waits, it drives the fabric or
// a stream if no other receiver does.
func (b *inbox) take(ctx context.Context, from uint32, any bool) (Message, error) {
	for {
		b.mu.Lock()
		if e, s := b.oldest(from, any); e != nil {
			if i := b.news(e.From); i >= 0 && e.start == s.start {
				err := b.claim(i)
				b.mu.Unlock()
				return Message{}, err
			}
			b.remove(e, s)
			b.mu.Unlock()
			s.received(e)
			return e.Message, nil
		}
		if err := b.over(from, any); err != nil {
			b.mu.Unlock()
			return Message{}, err
		}
		if err := ctx.Err(); err != nil {
			b.mu.Unlock()
			return Message{}, err
		}
		d, turn := b.drivenBy(from, any)
		select {
		case <-turn:
			b.drive(ctx, drives{d, from, any})
		default:
			if m, done, err := b.wait(ctx, &waiter{from: from, any: any, woken: make(chan struct{}, 1)}); done {
				return m, err
			}
		}
	}
}

// drivenBy returns the driver that a receiver should use: that of the stream by which the last message arrived, or that
// of the fabric. Both results are nil if there is no such driver.
func (b *inbox) drivenBy(from uint32, any bool) (d driver, turn <-chan struct{}) {
	stream := b.stream
	d = b.recent
	if !any {
		s := b.source(from)
		stream, d = s.stream, s.driver
	}
	switch {
	case stream && d != nil:
		return d, d.Turn().Free()
	case !stream && b.driver != nil:
		return b.driver, b.driver.Turn().Free()
	}
	return nil, nil
}

// drive lets e.d read messages in this goroutine, which has its turn, until some have arrived or Wake is called. The
// caller holds b.mu, which drive releases.
func (b *inbox) drive(ctx context.Context, e drives) {
	b.driving = append(b.driving, e)
	b.mu.Unlock()
	var stop func() bool
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, e.d.Wake)
	}
	e.d.Drive()
	if stop != nil {
		stop()
	}
	b.mu.Lock()
	i := slices.Index(b.driving, e)
	b.driving = slices.Delete(b.driving, i, i+1)
	b.mu.Unlock()
}

// readBy sets the driver of the stream by which messages of a peer arrive. d is nil if there is no such driver any
// more.
func (b *inbox) readBy(from uint32, d driver) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.source(from)
	if d == nil && b.recent == s.driver {
		b.recent = nil
	}
	s.driver = d
}

// wakeDrivers wakes the driving receivers that may be waiting for a message of a peer, so that they check the inbox
// again. by is the driver that has read the message; its receiver returns anyway. The caller holds b.mu.
func (b *inbox) wakeDrivers(from uint32, by driver) {
	for _, e := range b.driving {
		if e.d != by && (e.any || e.from == from) {
			e.d.Wake()
		}
	}
}

// wait waits until a message is passed to w, the turn of the driver becomes free, or ctx ends. If done is false, take
// has to look again. The caller holds b.mu, which wait releases.
func (b *inbox) wait(ctx context.Context, w *waiter) (m Message, done bool, err error) {
	b.waiting = append(b.waiting, w)
	d, turn := b.drivenBy(w.from, w.any) // if the fabric opens later, its own goroutine reads
	b.mu.Unlock()
	if turn != nil {
		d.Turn().Want()
	}
	select {
	case <-w.woken:
	case <-turn:
		d.Turn().Leave() // frees the turn; the next goroutine to ask for it is probably this one
		if b.leave(w) {
			return m, false, nil
		}
		<-w.woken
	case <-ctx.Done():
		if b.leave(w) {
			return m, true, ctx.Err()
		}
		<-w.woken // a message was passed to w and must not be lost
	}
	if w.got == nil {
		return m, false, nil // take finds the reason
	}
	w.source.received(w.got)
	return w.got.Message, true, nil
}

// over returns the error that a receiver must get instead of waiting, or nil. It returns each alarm, failure and
// restart once. The caller holds b.mu.
func (b *inbox) over(from uint32, any bool) (err error) {
	switch {
	case b.err != nil:
		return b.err
	case any && len(b.alarms) > 0:
		err, b.alarms = b.alarms[0], b.alarms[1:]
		return err
	case any && len(b.failures) > 0:
		err, b.failures = b.failures[0], b.failures[1:]
		return err
	case len(b.restarts) > 0:
		return b.claim(0)
	case any:
		return nil
	}
	return b.source(from).err
}

// leave removes a waiter. It returns false if the waiter has been woken already.
func (b *inbox) leave(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, w)
	if i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
	return i >= 0
}

// oldest returns the oldest message of one peer, or of any, and its source. The message is nil if none is queued. The
// caller holds b.mu.
func (b *inbox) oldest(from uint32, any bool) (*entry, *source) {
	if any {
		if b.first == nil {
			return nil, nil
		}
		return b.first, b.source(b.first.From)
	}
	s := b.source(from)
	if len(s.queue) == 0 {
		return nil, s
	}
	return s.queue[0], s
}

// remove removes the oldest entry of a peer. The caller holds b.mu.
func (b *inbox) remove(e *entry, s *source) {
	s.queue[0] = nil
	if s.queue = s.queue[1:]; len(s.queue) == 0 {
		s.queue = nil
	}
	s.bytes -= len(e.Body)
	if s.room != nil && s.bytes <= inboxLimit {
		close(s.room)
		s.room = nil
	}
	if e.prev == nil {
		b.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		b.last = e.prev
	} else {
		e.next.prev = e.prev
	}
}

// received calls s.taken for the received message e, unless the peer was restarted after it sent e.
func (s *source) received(e *entry) {
	if s.taken != nil && e.start == s.start {
		s.taken(len(e.Body))
	}
}

// news returns the index in b.restarts of the restart of a peer, or -1 if no restart of it is unreported. The caller
// holds b.mu.
func (b *inbox) news(from uint32) int {
	s := b.from[from]
	if s == nil || s.news == nil {
		return -1
	}
	return slices.Index(b.restarts, s.news)
}

// claim removes the restart with the index i from b.restarts and returns it, so that the caller reports it to the
// program. It drops the queued messages that the peer sent before the restart. The caller holds b.mu.
func (b *inbox) claim(i int) *RestartError {
	err := b.restarts[i]
	b.restarts = slices.Delete(b.restarts, i, i+1)
	b.unheard.Store(int32(len(b.restarts)))
	for _, s := range b.from {
		if s.news != err {
			continue
		}
		s.news = nil
		for _, e := range slices.Clone(s.queue) {
			if e.start != s.start {
				b.remove(e, s)
			}
		}
	}
	return err
}

// lose sets the error of a peer. It wakes all driving receivers, and those that wait for a message of that peer only.
// Messages that have arrived before can still be received.
func (b *inbox) lose(from uint32, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.source(from).err = err
	b.wake(func(w *waiter) bool { return !w.any && w.from == from })
}

// alarm records an error. The next call of Recv that finds no message returns it.
func (b *inbox) alarm(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alarms = append(b.alarms, err)
	b.wakeFirst(true)
}

// failed is like alarm, for the failure of a rank. Unlike an alarm, the failure can be acknowledged.
func (b *inbox) failed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = append(b.failures, err)
	b.wakeFirst(true)
}

// acknowledge discards all failures that no receiver has returned.
func (b *inbox) acknowledge() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = nil
}

// wakeFirst wakes the receiver that has waited longest. If any is set, it only considers receivers that take messages
// of any peer. The caller holds b.mu.
func (b *inbox) wakeFirst(any bool) {
	told := false
	b.wake(func(w *waiter) bool {
		first := !told && (w.any || !any)
		told = told || first
		return first
	})
}

// regain clears the error that lose has set, because the peer is connected again.
func (b *inbox) regain(from uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.from[from]; s != nil {
		s.err = nil
	}
}

// close closes the inbox. Waiting receivers return err.
func (b *inbox) close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
	b.wake(func(*waiter) bool { return true })
	for _, s := range b.from {
		if s.room != nil {
			close(s.room)
			s.room = nil
		}
	}
}

// wake wakes all driving receivers, and the waiting ones for which which returns true. The caller holds b.mu.
func (b *inbox) wake(which func(*waiter) bool) {
	for _, e := range b.driving {
		e.d.Wake()
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(w *waiter) bool {
		chosen := which(w)
		if chosen {
			w.woken <- struct{}{}
		}
		return chosen
	})
}
