package pmixserver

import (
	"fmt"

	"ibrun/bootstrap/clients/pmix"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// What a rank commits for other nodes is one value on the KVS, its blob: the encoding and the
// pairs. A rank that commits again puts a newer blob, which has the older one's pairs too.
//
//	committed --Put "x EPOCH.NUMBER"--> kept at its node --Ask, Answer--> the asking client
//
// A question for a blob that is not there waits at its owner.

// commits are what a rank's program has committed.
type commits struct {
	local, remote pmix.Pairs
	committed     bool
	last          uint32 // number of the newest blob, from 1; 0: none was put
	announced     uint32 // the newest that all ranks know of
	received      int    // bytes of all commits of the rank's programs
	kept          int    // bytes of all their blobs
}

// maxBlob is how many bytes a rank may commit for one scope.
const maxBlob = rankwire.MaxValue - 1

// maxKept is how many bytes the blobs of a rank may have beyond those of its commits. A blob has
// the older pairs, too, and all blobs are kept: small commits after a long one would fill the
// memory. Clients of libpmix commit all pairs each time, so theirs do not come near.
const maxKept = maxBlob

// keyHost is the host of a rank.
const keyHost = "pmix.hname"

// blob names a value of the KVS.
type blob struct {
	slot   job.Slot
	epoch  uint16
	number uint32
}

func (b blob) key() string { return fmt.Sprintf("x %d.%d", b.epoch, b.number) }

// values holds the Gets of a node's clients that wait for a value.
type values struct {
	newest      []job.SlotRun // slots that have put more than one blob; Number is the number of their newest blob
	newestEpoch uint16
	asked       map[string][]asking // Gets that wait for values of other nodes, by slot and key
	parked      []getter            // Gets that wait for a commit of a rank of this node
}

// asking is who waits for the answer to a question of a rank: a request, or no connection's.
type asking struct {
	waiter
	by    *rank
	value func(rankwire.Answer) // of asked
	name  func(rankwire.Name)   // of awaited
}

// getter is a Get that waits.
type getter struct {
	waiter
	want pmix.Get
	of   blob
}

// commit keeps what a client commits, and puts it where others ask for it.
func (s *Server) commit(w waiter, q pmix.Commit) {
	r := w.rank
	s.count(r, job.CountPuts)
	local, remote := r.local.Update(q.Local), r.remote.Update(q.Remote)
	if len(local.Bytes) > maxBlob || len(remote.Bytes) > maxBlob {
		s.status(w, pmix.OutOfResource)
		return
	}
	r.received += len(q.Local.Bytes) + len(q.Remote.Bytes)
	again := string(remote.Bytes) != string(r.remote.Bytes)
	if again && r.kept+len(remote.Bytes) > maxKept+r.received {
		s.status(w, pmix.OutOfResource)
		return
	}
	r.local, r.committed = local, true
	if again {
		r.remote = remote
		s.put(r)
	}
	s.status(w, pmix.Done)
	s.unpark()
}

// put puts a rank's blob on the KVS.
func (s *Server) put(r *rank) {
	r.last++
	r.kept += len(r.remote.Bytes)
	s.send(r, rankwire.Put{Key: blob{r.slot, r.epoch, r.last}.key(), Value: r.blob()})
}

// putEmpty puts an empty blob if there is none, so that those who ask need not wait.
func (s *Server) putEmpty(r *rank) {
	r.committed = true
	if r.last == 0 {
		s.put(r)
	}
}

func (s *Server) count(r *rank, n job.Count) { r.counts.Sum[n]++ }

// get answers from what the node has, or asks the rank's node.
func (s *Server) get(w waiter, q pmix.Get) {
	s.count(w.rank, job.CountGets)
	if o := s.related[q.Of.Namespace]; o != nil {
		s.getRelated(w, q, o)
		return
	}
	slot, ok := s.slotOf(q.Of.Rank)
	if q.Of.Namespace != s.namespace || !ok {
		s.status(w, pmix.NotFound)
		return
	}
	if p, ok := s.ofGroup(q, slot); ok {
		s.give(w, q.Of, p)
		return
	}
	if attrs, ok := placeAttrs(s.placeOf(slot), q.Key); ok {
		s.give(w, q.Of, pmix.PairsOf(attrs...))
		return
	}
	if q.Key == keyHost { // not known: no rank commits it
		s.status(w, pmix.NotFound)
		return
	}
	g := getter{w, q, blob{slot: slot, epoch: w.rank.epoch}}
	if s.here(slot) {
		if !s.tryLocal(g) {
			s.parked = append(s.parked, g)
			w.rank.waiting++
			s.expire(w, q.Timeout)
		}
		return
	}
	if q.Immediate { // such keys come with the job information, or not at all
		s.status(w, pmix.NotFound)
		return
	}
	g.of.number = 1
	if number, ok := job.FindRun(s.newest, slot); ok && s.newestEpoch == g.of.epoch {
		g.of.number = number
	}
	s.request(g)
	s.expire(w, q.Timeout)
}

// tryLocal answers a Get of a rank of this node, if it can be answered.
func (s *Server) tryLocal(g getter) bool {
	r := s.local(g.of.slot)
	current := r.epoch == g.of.epoch
	switch {
	case current && r.committed && has(r.local, g.want.Key):
		s.give(g.waiter, g.want.Of, r.local)
	case g.want.Immediate || r.over || r.epoch > g.of.epoch || current && r.open == 0:
		s.status(g.waiter, pmix.NotFound)
	default:
		return false
	}
	return true
}

// has reports whether pairs have a key; the empty key is all of them.
func has(p pmix.Pairs, key string) bool {
	if key == "" {
		return true
	}
	for k := range p.All() {
		if k == key {
			return true
		}
	}
	return p.Check() != nil // what cannot be read may have it
}

// unpark looks again at what waits for this node's ranks.
func (s *Server) unpark() {
	waiting := s.parked
	s.parked = nil
	for _, g := range waiting {
		if g.waits() && !s.tryLocal(g) {
			s.parked = append(s.parked, g)
		} else {
			g.rank.waiting--
		}
	}
}

// request asks for a blob of another node.
func (s *Server) request(g getter) {
	s.askFor(g.of.slot, g.of.key(), g.of.epoch, asking{waiter: g.waiter, by: g.rank, value: func(m rankwire.Answer) {
		if g.waits() {
			s.found(g, m)
		}
	}})
}

// askFor asks for a value of another node, unless that is done already. The answer waits for the
// value, and for the owner's epoch.
func (s *Server) askFor(of job.Slot, key string, epoch uint16, a asking) {
	id := answerID(of, key)
	waiting, asked := s.asked[id]
	s.asked[id] = append(waiting, a)
	a.by.waiting++
	if !asked {
		s.send(a.by, rankwire.Ask{Rank: of, Key: key, Least: epoch})
	}
}

func answerID(slot job.Slot, key string) string { return fmt.Sprintf("%d %s", slot, key) }

// answered takes a value, or that there is none.
func (s *Server) answered(m rankwire.Answer) {
	id := answerID(m.Rank, m.Key)
	waiting := s.asked[id]
	delete(s.asked, id)
	for _, a := range waiting {
		a.by.waiting--
		a.value(m)
	}
}

// found answers a Get from a blob. A key that it lacks may be in the next one.
func (s *Server) found(g getter, m rankwire.Answer) {
	switch {
	case m.What == rankwire.Failed:
		s.status(g.waiter, pmix.Unreachable)
		return
	case m.What != rankwire.Found:
		s.status(g.waiter, pmix.NotFound)
		return
	}
	p, ok := parseBlob(m.Value)
	switch {
	case !ok:
		s.status(g.waiter, pmix.NotFound)
		return
	case !has(p, g.want.Key):
		g.of.number++
		s.request(g)
		return
	}
	s.give(g.waiter, g.want.Of, p)
}
