package ib

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"ibrun/cgo/verbs"
)

// restEvery is how many polls in a row may find nothing until other goroutines have their turn.
// Where the process has CPUs left, each turn wakes a thread that looks for work, and takes a CPU
// from another process.
const restEvery = 64

// pause lets those run whom a poll has woken, and now and then all others.
func (l *engine) pause(found bool) {
	if l.empty++; found || l.empty == restEvery {
		l.empty = 0
		runtime.Gosched()
	}
}

// serve is the goroutine that takes what the device has done for streams.
func (l *engine) serve() {
	for !l.sweep() {
		l.step()
	}
	l.close()
	l.dev.release()
}

// keepFor is how long a wait for messages keeps its processor at first. A round trip of 4 KiB over
// Soft-RoCE is as long.
const keepFor = 250 * time.Microsecond

// keeping is how long the goroutine of streams, or that of datagrams, may keep its processor now.
// As with polls, one of them may: that of streams while there are some.
func (f *Fabric) keeping(streams bool) time.Duration {
	if f.cfg.Spin || streams != f.streaming.Load() {
		return 0
	}
	return keepFor
}

// step waits for the device, or a poke, and takes what has been done.
func (l *engine) step() {
	polls := l.f.cfg.Spin && l.f.streaming.Load() // without streams, all that comes is a poke
	switch {
	case polls:
		l.due = ^uint64(0)
		l.pause(l.takeDue((*verbs.CQ).Poll) > 0)
	case l.due != 0:
		l.takeDue((*verbs.CQ).ArmPoll) // armed first: what is not in this batch makes an event
	default:
		l.await()
	}
	l.due = l.again
	l.again = 0
}

// await takes the first batch of the queue that has something next.
func (l *engine) await() {
	from, n, err := l.channel.Next(l.ends[:], l.f.keeping(true))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded): // poke
		_ = l.channel.SetDeadline(noDeadline)
	case err != nil:
		l.breaks(err)
	case from == 0:
		l.receives(n)
	default:
		l.completes(n, 1<<from)
	}
}

// takeDue takes one batch of completions from each queue that is due, and returns their number. Poll is CQ.Poll or
// CQ.ArmPoll.
func (l *engine) takeDue(poll func(*verbs.CQ, []verbs.Completion) (int, error)) (found int) {
	if l.due&1 != 0 {
		n, err := poll(l.cq, l.ends[:])
		l.receives(n)
		found += n
		if err != nil {
			l.breaks(err)
		}
	}
	if l.due>>1 == 0 {
		return found
	}
	l.mu.Lock()
	queues := l.queues
	l.mu.Unlock()
	for i, q := range queues {
		bit := uint64(1) << q.cookie()
		if l.due&bit == 0 {
			continue
		}
		n, err := poll(q.cq, l.ends[:])
		l.completes(n, bit)
		found += n
		if err != nil {
			l.breaks(fmt.Errorf("queue %d: %w", i, err))
		}
	}
	return found
}

// receives hands on the first n of ends, which is what has arrived.
func (l *engine) receives(n int) {
	for i := range l.ends[:n] {
		c := &l.ends[i]
		r := l.ringOf(int(c.ID))
		if s := l.of(c.QPN); s != nil {
			s.received(c, r.bytes(int(c.ID)))
		}
		l.reposts = append(l.reposts, r.request(int(c.ID)))
	}
	if n == len(l.ends) {
		l.again |= 1
	}
	if len(l.reposts) > l.heldBack {
		if _, err := l.srq.Post(l.reposts); err != nil {
			l.breaks(err)
		}
		l.reposts = l.reposts[:0]
	}
}

// completes hands on the first n of ends, which is what was sent of the queues with a bit.
func (l *engine) completes(n int, bit uint64) {
	for i := range l.ends[:n] {
		if s := l.of(l.ends[i].QPN); s != nil {
			s.completed(&l.ends[i])
		}
	}
	if n == len(l.ends) {
		l.again |= bit
	}
}
