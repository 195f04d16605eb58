package pmixserver

import (
	"slices"
	"time"

	"ibrun/bootstrap/clients/pmix"
)

// expire answers a request if it has not been answered in time; 0: it may wait for ever.
func (s *Server) expire(w waiter, after time.Duration) {
	if after > 0 {
		s.do(Timer{w.call, w.tag, after})
	}
}

// Due says that the time of a request is up.
func (s *Server) Due(call, tag uint32) []Effect {
	if c := s.conns[call]; c != nil {
		s.status(waiter{c, tag}, pmix.TimedOut)
		c.rank.unsure = true
	}
	return s.done()
}

// waiter is a request that waits for an answer.
type waiter struct {
	*conn
	tag uint32
}

// waits reports whether it still does.
func (w waiter) waits() bool { return !w.over && w.engine.Waits(w.tag) }

// Limits of a rank. A question that waits takes at most 1 KiB of memory besides twice
// its message: all those of a rank take 1 MiB, however many connections it makes.
const (
	maxConns   = 64
	maxWaiting = 1 << 10
)

// questions is how many questions a request may have to wait for.
func questions(request pmix.Request) int {
	switch q := request.(type) {
	case pmix.Get, pmix.Fence, pmix.Connect, pmix.Disconnect, pmix.GroupConstruct, pmix.Spawn:
		return 1
	case pmix.Publish:
		return q.Attrs.Len()
	case pmix.Lookup:
		return q.Keys.Len()
	case pmix.Unpublish:
		return max(1, q.Keys.Len())
	}
	return 0
}

// hasRoom reports whether so many more questions of a rank can wait.
func (s *Server) hasRoom(r *rank, more int) bool {
	if r.waiting+more > maxWaiting && r.unsure {
		r.unsure = false
		s.forget()
	}
	return more == 0 || r.waiting+more <= maxWaiting
}

// forget drops what waits for requests that wait no longer.
func (s *Server) forget() {
	s.parked = slices.DeleteFunc(s.parked, func(g getter) bool {
		gone := !g.waits()
		if gone {
			g.rank.waiting--
		}
		return gone
	})
	gone := func(a asking) bool {
		gone := a.conn != nil && !a.waits()
		if gone {
			a.by.waiting--
		}
		return gone
	}
	for id, waiting := range s.asked {
		s.asked[id] = slices.DeleteFunc(waiting, gone) // an empty list says that the question is asked
	}
	for of, waiting := range s.awaited {
		s.awaited[of] = slices.DeleteFunc(waiting, gone)
	}
}
