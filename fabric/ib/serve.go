package ib

import (
	"errors"
	"fmt"
	"os"
	"runtime"

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

// step waits for the device, or a poke, and takes what has been done.
func (l *engine) step() {
	polls := l.f.cfg.Spin && l.f.streaming.Load() // without streams, all that comes is a poke
	if !polls && !l.more {
		n, err := l.channel.Wait(l.cookies[:])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded): // poke
			_ = l.channel.SetDeadline(noDeadline)
		case err != nil:
			l.breaks(err)
		}
		for _, c := range l.cookies[:n] {
			l.due |= 1 << c
		}
	}
	l.more = false
	poll := (*verbs.CQ).ArmPoll // armed first: what is not in this batch makes an event
	if polls {
		poll = (*verbs.CQ).Poll
		l.due = ^uint64(0)
	}
	found := 0
	if l.due&1 != 0 {
		found += l.receives(poll)
	}
	if l.due>>1 != 0 {
		found += l.completes(poll)
	}
	if polls {
		l.pause(found > 0)
	}
	l.due = l.again
	l.again = 0
	l.more = l.due != 0
}

// pollInto is CQ.Poll or CQ.ArmPoll.
type pollInto func(*verbs.CQ, []verbs.Completion) (int, error)

// receives takes one batch of what has arrived, and says how much that was.
func (l *engine) receives(poll pollInto) int {
	n, err := poll(l.cq, l.ends[:])
	again := l.reposts[:0]
	for i := range l.ends[:max(n, 0)] {
		c := &l.ends[i]
		r := l.ringOf(int(c.ID))
		if s := l.of(c.QPN); s != nil {
			s.received(c, r.mr.Bytes()[(int(c.ID)-r.first)*piece:])
		}
		again = append(again, r.request(int(c.ID)))
	}
	if n > 0 && err == nil {
		_, err = l.srq.Post(again)
	}
	if n == len(l.ends) {
		l.again |= 1
	}
	if err != nil {
		l.breaks(err)
	}
	return max(n, 0)
}

// completes takes one batch of what was sent from each queue that has some, and says how
// much that was.
func (l *engine) completes(poll pollInto) (found int) {
	l.mu.Lock()
	queues := l.queues
	l.mu.Unlock()
	for i, q := range queues {
		bit := uint64(1) << q.cookie()
		if l.due&bit == 0 {
			continue
		}
		n, err := poll(q.cq, l.ends[:])
		found += max(n, 0)
		for j := range l.ends[:max(n, 0)] {
			if s := l.of(l.ends[j].QPN); s != nil {
				s.completed(&l.ends[j])
			}
		}
		if n == len(l.ends) {
			l.again |= bit
		}
		if err != nil {
			l.breaks(fmt.Errorf("queue %d: %w", i, err))
		}
	}
	return found
}
