package pmixserver

import (
	"maps"
	"slices"
	"strings"

	"ibrun/bootstrap/clients/pmix"
	"ibrun/bootstrap/wire/rankwire"
)

// notify passes an event on to the other clients of the node.
func (s *Server) notify(w waiter, q pmix.Notify) {
	s.status(w, pmix.Done)
	if q.Range != pmix.RangeProcLocal {
		source := pmix.Proc{Namespace: s.namespace, Rank: pmix.Rank(w.rank.number)}
		s.spread(pmix.Event{Code: q.Code, Source: source, Range: q.Range, Attrs: q.Attrs},
			func(c *conn) bool { return c != w.conn })
	}
}

// spread sends an event to some clients.
func (s *Server) spread(ev pmix.Event, to func(*conn) bool) {
	for _, call := range slices.Sorted(maps.Keys(s.conns)) {
		c := s.conns[call]
		if c.over || !to(c) {
			continue
		}
		if b := c.engine.Notify(ev); b != nil {
			s.do(Bytes{c.call, b})
		}
	}
}

// failed tells a rank's clients of ranks that have failed in a job that goes on.
func (s *Server) failed(r *rank, m rankwire.Failures) {
	for span := range m.Ranks.All() {
		for slot := span.First; slot < span.End(); slot++ {
			code := pmix.LeftWithoutLeave
			if s.job.Launch.Restarts {
				code = pmix.Aborted
			}
			of := pmix.Proc{Namespace: s.namespace, Rank: pmix.Rank(s.job.Layout.Rank(slot))}
			s.spread(pmix.Event{
				Code: code, Source: of, Range: pmix.RangeNamespace,
				Attrs: pmix.ListOf(pmix.Attr{Key: "pmix.evproc", Value: pmix.ProcValue(of)}),
			}, func(c *conn) bool { return c.rank == r })
		}
	}
}

// cleanUp registers files.
func (s *Server) cleanUp(w waiter, q pmix.Cleanup) {
	for _, p := range q.Paths {
		switch {
		case p.Folder && p.KeepTop: // to empty a folder takes a look at it
		case slices.Contains(q.Ignored, p.Name):
		default:
			tree := p.Folder && p.Recursive && !p.OnlyEmpty && len(q.Ignored) == 0
			s.do(RemoveLater{w.call, p.Name, tree})
		}
	}
	s.status(w, pmix.Done)
}

// query answers what can be known here.
func (s *Server) query(w waiter, q pmix.Query) {
	var known []pmix.Attr
	for question := range q.Questions.All() {
		for key := range question.Keys.All() {
			if key == "pmix.qry.ns" {
				known = append(known, pmix.Attr{Key: string(key), Value: pmix.TextValue(s.namespace)})
			}
		}
	}
	if len(known) == 0 {
		s.status(w, pmix.NotFound)
		return
	}
	s.answer(w, pmix.Answer{Body: pmix.Attributes{Attrs: pmix.ListOf(known...)}})
}

// These constants limit the texts that a rank prints to the user, in bytes.
const (
	maxLogged = 4 << 20 // in all
	maxPiece  = 16 << 10
)

// print prints texts of a rank to the user. stream is 1 for standard output and 2 for standard error. print drops a
// text that would bring the total of the rank's texts above maxLogged bytes.
func (s *Server) print(r *rank, stream uint8, texts []string) {
	for _, text := range texts {
		if text == "" || r.logged+len(text) > maxLogged {
			continue
		}
		r.logged += len(text)
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		for piece := range slices.Chunk([]byte(text), maxPiece) {
			s.do(Print{r.slot, stream, piece})
		}
	}
}
