package pmixserver

import (
	"crypto/subtle"
	"slices"

	"ibrun/bootstrap/clients/pmix"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// join admits a client that knows the namespace and names a rank of this node. It refuses any other client.
func (s *Server) join(c *conn, tag uint32, q pmix.Join) {
	w := waiter{c, tag}
	if subtle.ConstantTimeCompare([]byte(q.Namespace), []byte(s.namespace)) != 1 {
		s.status(w, pmix.BadCredential)
		return
	}
	slot, ok := s.slotOf(q.Rank)
	if !ok || !s.here(slot) {
		s.status(w, pmix.BadParameter)
		return
	}
	r := s.local(slot)
	if why := r.refusal(); why != "" {
		s.warn("rank %d: a program that speaks PMIx was refused: %s", r.number, why)
		s.status(w, pmix.NotSupported)
		return
	}
	if r.conns == maxConns {
		s.status(w, pmix.OutOfResource)
		return
	}
	c.rank, c.join = r, tag
	r.conns++
	s.do(Admit{c.call, slot})
	if !s.joined {
		s.joined = true
		s.do(FirstClient{})
	}
	switch {
	case len(r.welcome) > 0:
		r.welcome = append(r.welcome, c)
	case r.open > 0:
		s.serve(c)
	default:
		r.welcome = append(r.welcome, c)
		s.send(r, rankwire.Hello{})
	}
}

// refusal returns the reason why another program of the rank cannot join, or "" if it can.
func (r *rank) refusal() string {
	switch {
	case r.over:
		return "the rank has ended"
	case r.foreign:
		return "another program of this rank has joined the job by other means than PMIx: " +
			"start this one as a job of its own"
	case r.broken:
		return "an earlier program of this rank ended without PMIx_Finalize, and others may wait for it: " +
			"start this one as a job of its own"
	}
	return ""
}

// serve accepts the Join of a client. From then on, the server answers the client's other requests.
func (s *Server) serve(c *conn) {
	c.rank.open++
	s.status(waiter{c, c.join}, pmix.Done)
}

// leave handles a client that has finalized, or whose connection has closed. If the rank has no open client left and
// all its clients have finalized, the rank leaves the job.
func (s *Server) leave(c *conn, finalized bool) {
	was := c.rank != nil && !c.over && (finalized || c.engine.Open())
	if !finalized {
		c.over = true
	}
	if !was {
		return
	}
	r := c.rank
	r.open--
	if !finalized {
		r.broken = true
	}
	if r.open > 0 || r.broken || r.over {
		return
	}
	s.putEmpty(r)
	s.unpark()
	if s.job.Transport.Stats {
		counts := r.counts
		counts.Sum[job.CountRanks] = 1
		s.send(r, rankwire.Tally{Of: &counts})
	}
	s.send(r, rankwire.Finalize{})
	if !slices.ContainsFunc(s.ranks, func(r rank) bool { return r.open > 0 }) {
		s.groups = groups{byContext: map[uint64]*group{}}
	}
}

// Closed must be called when the connection with the number call has closed. It returns the effects to perform.
func (s *Server) Closed(call uint32) []Effect {
	if c := s.conns[call]; c != nil {
		s.leave(c, false)
		if c.rank != nil {
			c.rank.handles = c.rank.handles || c.engine.Registered(pmix.Aborted)
			c.rank.conns--
			c.rank.unsure = true
		}
		delete(s.conns, call)
	}
	return s.done()
}

// abort ends the job with an exit code that depends on q.Code.
func (s *Server) abort(r *rank, q pmix.Abort) {
	code := uint8(0) // an MPI program may call MPI_Abort to end a job that has not failed
	if q.Code != 0 {
		code = job.AbortCode(int(q.Code))
	}
	s.send(r, rankwire.Abort{Code: code, Text: q.Text})
}
