package charm

import (
	"encoding/binary"
	"fmt"

	"ibrun/bootstrap/ccs"
	"ibrun/bootstrap/wire/rankwire"
)

// A program that can change its size (package charm) does it together, after a barrier:
//
//	Resize waits --> process 0 is asked, as by a client
//	realloc of process 0 --> Follow to the root, and from there to all: they join Resizing
//	Release of it, the layout holds --> realloc_ack: a process leaves, or executes itself again
//	initnode again --> joins the table of all, with those that have come
//
// To leave takes a second Resizing: the first one agrees on it (docs/dev/decisions/0030).

// resize takes what becomes of the job's size.
func (s *Server) resize(r *rank, m rankwire.Resize) {
	r.change = m
	switch {
	case m.Step == rankwire.ResizeWaits:
		s.askForSize(r)
	case m.Step == rankwire.ResizeDone && s.job.Size != m.Layout.Ranks():
		j := *s.job // it is not ours
		j.Layout, j.Nodes, j.Size = m.Layout, m.Layout.Nodes(), m.Layout.Ranks()
		s.job, s.table = &j, table{}
	}
}

// askForSize asks process 0 for another number of processes, if one is wanted and it has its table.
// Nobody waits for its reply.
func (s *Server) askForSize(r *rank) {
	l := r.change.Layout
	if r.number != 0 || !r.running || r.change.Step != rankwire.ResizeWaits || l.Nodes() == 0 {
		return
	}
	if next := l.Ranks(); next != s.job.Size {
		s.asked.last++
		s.send(r, Forward(ccs.ResizeRequest(s.job.Size, min(next, s.job.Size), next), s.asked.last))
	}
}

// unhandled takes the word of process 0 that its program does not know what it was asked for.
func (s *Server) unhandled(r *rank) {
	if r.number == 0 && r.resizes && r.change.Step == rankwire.ResizeWaits && r.change.Layout.Nodes() > 0 {
		r.change = rankwire.Resize{}
		s.report(r, rankwire.Follow{Step: rankwire.FollowCannot})
	}
}

// realloc takes the word of process 0 that all are ready to go on with another number.
func (s *Server) realloc(r *rank, data []byte) {
	if !r.resizes || r.number != 0 || len(data) != 4 {
		s.refuse(r.conn, fmt.Errorf("%s of a process that cannot", Realloc))
	} else if next := binary.BigEndian.Uint32(data); r.change.Step == rankwire.ResizeWaits &&
		r.change.Layout.Ranks() == next {
		s.report(r, rankwire.Follow{Step: rankwire.FollowResize})
	} else {
		s.fail(r, fmt.Sprintf("it goes on with %d processes, which nobody has asked ibrun for; "+
			"hint: ibrun ctl grow, shrink", next))
	}
}

// follow does what process 0 has reported for all.
func (s *Server) follow(r *rank, m rankwire.Follow) {
	switch {
	case r.ended || r.over || !r.resizes:
	case m.Step == rankwire.FollowResize:
		s.join(r, stepResize)
	case m.Step == rankwire.FollowEnd:
		r.code = m.Code
		s.end(r)
	}
}

// resized goes on when all have joined.
func (s *Server) resized(r *rank) {
	if r.change.Step == rankwire.ResizeAgreed {
		s.join(r, stepResize)
		return
	}
	s.unanswered(r)
	s.send(r, Append(nil, ReallocAck, 0))
	r.running, r.welcomed = false, false
	if uint32(r.slot) >= s.job.Size {
		r.ended, r.code = true, 0 // it leaves
		s.report(r, rankwire.Finalize{})
		return
	}
	r.again = true
}
