package charm

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"

	"ibrun/bootstrap/ccs"
	"ibrun/internal/job"
)

var errBefore = errors.New("ending before the table")

// requests are those of clients that wait for a program's reply, by the number in the header.
type requests struct {
	last uint32
	open map[uint32]request
}

type request struct {
	id   uint32
	rank *rank
}

// mostOpen is how many requests may wait for the programs of a node.
const mostOpen = 1024

// Request takes a client's request for the process that is a rank. It is answered by Replied.
func (s *Server) Request(id uint32, slot job.Slot, q ccs.Request) []Effect {
	trouble := ""
	if !s.here(slot) {
		trouble = "no process has this PE"
	} else if r := s.local(slot); r.pes == 0 {
		trouble = "the job is no program of Charm++'s layer netlrts that ibrun has started"
	} else if !r.running && !r.muting {
		trouble = "the program has not started yet"
	} else if q.Handler == ccs.InfoHandler {
		s.do(Replied{ID: id, Rank: slot, Data: ccs.Census(s.table.pes)})
		return s.done()
	} else if r.conn == nil || r.ended {
		trouble = "the process of this PE has ended"
	} else if len(s.asked.open) >= mostOpen {
		trouble = "too many requests wait for replies"
	} else if strings.HasPrefix(q.Handler, "redirect stdio") || strings.HasPrefix(q.Handler, "fetch stdio") {
		trouble = "ibrun keeps no copy of the output; hint: ibrun ctl attach"
	} else if err := q.Check(); err != nil {
		trouble = err.Error()
	} else {
		s.asked.last++
		s.asked.open[s.asked.last] = request{id, r}
		if forward := Forward(q, s.asked.last); r.muting { // other processes of the job may already run
			r.held = append(r.held, forward)
		} else {
			s.send(r, forward)
		}
		return s.done()
	}
	s.do(Replied{ID: id, Rank: slot, Trouble: trouble})
	return s.done()
}

// replied takes a program's reply. A program may reply once, for itself.
func (s *Server) replied(r *rank, data []byte) {
	number, reply, err := ParseReply(data)
	if err != nil {
		s.refuse(r.conn, err)
		return
	}
	if q, ok := s.asked.open[number]; ok && q.rank == r {
		delete(s.asked.open, number)
		s.do(Replied{ID: q.id, Rank: r.slot, Data: bytes.Clone(reply)})
	}
}

// unanswered answers the requests to a program that is gone, in their order.
func (s *Server) unanswered(r *rank) {
	r.held = nil
	for _, number := range slices.Sorted(maps.Keys(s.asked.open)) {
		if q := s.asked.open[number]; q.rank == r {
			delete(s.asked.open, number)
			s.do(Replied{ID: q.id, Rank: r.slot, Trouble: "the process of this PE has ended"})
		}
	}
}
