package pmixserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"ibrun/bootstrap/clients/pmix"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// A meeting is what processes wait for together: a fence, a group, a connection of jobs. It is
// named by its list of processes, and takes its turn among those of the same name.
//
// If all ranks of the job take part, it is a Barrier. Otherwise one rank of each node, its lowest
// that takes part, speaks for the node, and the lowest of all collects:
//
//	speaker of a node --Put "f"--> asked for by the first speaker, which puts "g" when it has all
//	everybody else asks for "g"
//
// If ranks of other jobs take part, each job's first speaker publishes what the others need, and
// every node looks that up.
type meeting struct {
	name    meetingName
	turn    string // name, and which of those of the name
	id      string // the same with the epoch of the members
	epoch   uint16
	slots   []job.Slot // of this job that take part, in order
	whole   bool       // all do; then slots is empty
	jobs    []string   // other namespaces
	waiting map[job.Slot]member
	shared  [][]byte // what members have for all: of this node, and in the end of all nodes
	missing int      // questions without an answer
	failed  bool
}

// member is a rank of this node that takes part.
type member struct {
	waiter
	body func(m *meeting) pmix.Body
}

// meetings are those that a node's ranks wait for.
type meetings struct {
	open  map[meetingName]*meeting
	whole map[uint32]*meeting    // by number of the collective
	turns map[meetingName]uint32 // how many have begun
}

// meetingName is a hash of what a meeting is and who takes part.
type meetingName [16]byte

// purpose is what a meeting is for.
type purpose struct {
	what    string
	timeout time.Duration
	shared  []byte // what the member has for all; empty: nothing
	body    func(m *meeting) pmix.Body
}

// meet takes part in a meeting.
func (s *Server) meet(w waiter, procs pmix.List[pmix.Proc], p purpose) {
	in, ok := s.participants(procs)
	if _, member := slices.BinarySearch(in.slots, w.rank.slot); !ok || !member && !in.whole {
		s.status(w, pmix.BadParameter)
		return
	}
	m := s.meeting(p.what, in, w.rank.epoch)
	if _, twice := m.waiting[w.rank.slot]; twice {
		s.status(w, pmix.BadParameter)
		return
	}
	m.waiting[w.rank.slot] = member{w, p.body}
	w.rank.waiting++
	s.putEmpty(w.rank)
	shared := s.news(w.rank, m.whole)
	if len(p.shared) > 0 {
		shared = append(shared, p.shared)
	}
	m.shared = append(m.shared, shared...)
	if len(m.jobs) > 0 {
		s.export(w.rank)
	}
	s.expire(w, p.timeout)
	if m.whole {
		s.joinWhole(w.rank, m, shared)
		return
	}
	s.gather(m, w.rank.epoch)
}

// isWhole reports whether a list of ranks of a namespace is of all.
func isWhole(ranks []pmix.Rank) bool { return slices.Contains(ranks, pmix.RankWildcard) }

// participants are who takes part in a meeting.
type participants struct {
	slots []job.Slot // of this job, in order; none if all do
	whole bool
	ranks map[string][]pmix.Rank // by namespace
}

// participants reads a list; ok is false if it has what is no rank.
func (s *Server) participants(l pmix.List[pmix.Proc]) (in participants, ok bool) {
	in.ranks = map[string][]pmix.Rank{}
	var slots []job.Slot
	for p := range l.All() {
		in.ranks[p.Namespace] = append(in.ranks[p.Namespace], p.Rank)
		switch slot, known := s.slotOf(p.Rank); {
		case p.Namespace != s.namespace:
		case p.Rank == pmix.RankWildcard:
		case !known:
			return in, false
		default:
			slots = append(slots, slot)
		}
	}
	slices.Sort(slots)
	slots = slices.Compact(slots)
	if in.whole = isWhole(in.ranks[s.namespace]) || uint32(len(slots)) == s.job.Size; !in.whole {
		in.slots = slots
	} else if len(in.ranks) == 1 { // other jobs do not know that a list is of all
		in.ranks[s.namespace] = []pmix.Rank{pmix.RankWildcard}
	}
	return in, true
}

// meeting is the open one of a name, or a new one.
func (s *Server) meeting(what string, in participants, epoch uint16) *meeting {
	h := sha256.New()
	fmt.Fprintf(h, "%q", what)
	for _, namespace := range slices.Sorted(maps.Keys(in.ranks)) {
		list := in.ranks[namespace]
		slices.Sort(list)
		if isWhole(list) {
			list = []pmix.Rank{pmix.RankWildcard}
		}
		fmt.Fprintf(h, "%q %v", namespace, slices.Compact(list))
	}
	name := meetingName(h.Sum(nil)[:len(meetingName{})])
	if m := s.meetings.open[name]; m != nil {
		return m
	}
	s.turns[name]++
	turn := fmt.Sprintf("%x.%d", name, s.turns[name])
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(in.ranks)), func(n string) bool { return n == s.namespace })
	m := &meeting{
		name: name, turn: turn, id: fmt.Sprintf("%s.%d", turn, epoch), epoch: epoch, slots: in.slots,
		whole: in.whole, jobs: others,
		waiting: map[job.Slot]member{},
	}
	s.meetings.open[name] = m
	return m
}

// context is a number that no other meeting has, as far as chance goes, and all members agree on.
func (m *meeting) context() uint64 {
	sum := sha256.Sum256([]byte(m.id))
	return binary.BigEndian.Uint64(sum[:])>>16 + 1 // positive as a number of 64 bits with a sign
}

// joinWhole joins a meeting of all ranks.
func (s *Server) joinWhole(r *rank, m *meeting, shared [][]byte) {
	r.op++
	s.meetings.whole[r.op] = m
	var parcels []rankwire.Parcel
	for _, value := range shared {
		parcels = append(parcels, rankwire.Parcel{From: r.slot, To: rankwire.Everyone, Value: value})
	}
	s.send(r, rankwire.Collect{Op: r.op, What: rankwire.Barrier, Parcels: rankwire.NewParcels(parcels...)})
}

// released takes the end of a meeting of all ranks, which each of them is told.
func (s *Server) released(r *rank, in rankwire.Release) {
	m := s.meetings.whole[in.Op]
	switch {
	case in.Trouble != "":
		s.send(r, rankwire.Abort{Code: 1, Text: "it waits in a PMIx fence in vain: " + in.Trouble})
	case m != nil: // the first of this node's ranks to be told
		delete(s.meetings.whole, in.Op)
		m.shared = nil
		for p := range in.Parcels.All() {
			m.shared = append(m.shared, p.Value)
		}
		s.own(m)
	}
}

// gather looks whether all members of this node have joined a meeting of some ranks, and goes on.
func (s *Server) gather(m *meeting, epoch uint16) {
	var speakers []job.Slot // one for each node
	last := job.NodeIndex(0)
	here := 0
	for _, slot := range m.slots {
		if s.here(slot) {
			here++
			m.failed = m.failed || s.local(slot).over
		}
		if node := s.job.Layout.NodeOf(slot); len(speakers) == 0 || node != last {
			speakers, last = append(speakers, slot), node
		}
	}
	first, _ := slices.BinarySearch(m.slots, s.node.First)
	mine := m.slots[first] // the rank that sends for this node
	r := s.local(mine)
	switch {
	case m.failed: // others learn it by what is put, or by the speaker's end
		s.send(r, rankwire.Put{Key: "f " + m.id, Value: m.outcome()})
		s.send(r, rankwire.Put{Key: "g " + m.id, Value: m.outcome()})
		s.conclude(m)
	case len(m.waiting) < here:
	case len(speakers) == 1:
		s.own(m)
	case mine != speakers[0]:
		s.send(r, rankwire.Put{Key: "f " + m.id, Value: m.outcome()})
		s.question(m, mine, speakers[0], "g "+m.id, epoch, func(value []byte) {
			m.shared = unpack(value)
			s.own(m)
		})
	default:
		collected := func() {
			s.send(r, rankwire.Put{Key: "g " + m.id, Value: m.outcome()})
			s.own(m)
		}
		left := len(speakers) - 1
		for _, slot := range speakers[1:] {
			s.question(m, mine, slot, "f "+m.id, epoch, func(value []byte) {
				m.shared = append(m.shared, unpack(value)...)
				if left--; left == 0 {
					collected()
				}
			})
		}
	}
}

// outcome is what a speaker puts: whether its part has failed, and what there is for all.
func (m *meeting) outcome() []byte {
	b := frame.Encoder{0}
	for _, value := range m.shared {
		b.Bytes(value)
	}
	if m.failed || len(b) > rankwire.MaxValue {
		return []byte{1}
	}
	return b
}

// unpack reads what outcome writes behind its first byte.
func unpack(b []byte) (shared [][]byte) {
	for r := frame.NewDecoder(b, math.MaxInt); len(r.Rest()) > 0; {
		if value := r.Bytes(); r.Err() == nil {
			shared = append(shared, value)
		}
	}
	return shared
}

// news are a rank's for a meeting: those of all ranks need not repeat what they have said.
func (s *Server) news(r *rank, whole bool) [][]byte {
	if r.last < 2 || whole && r.announced == r.last {
		return nil
	}
	if whole {
		r.announced = r.last
	}
	return [][]byte{appendRuns([]byte{holdsNews}, []job.SlotRun{{First: r.slot, End: r.slot + 1, Number: r.last}})}
}

// takeShared takes in the news of a meeting.
func (s *Server) takeShared(m *meeting) {
	var all []job.SlotRun
	for _, value := range m.shared {
		if len(value) > 0 && value[0] == holdsNews {
			all = append(all, parseRuns(value[1:])...)
		}
	}
	if len(all) == 0 {
		return
	}
	if m.epoch > s.newestEpoch {
		s.newest, s.newestEpoch = nil, m.epoch
	}
	s.newest = job.UpdateRuns(s.newest, job.JoinRuns(all))
}

// question asks a speaker of another node; the value is empty if the meeting fails.
func (s *Server) question(m *meeting, mine, of job.Slot, key string, epoch uint16, then func(value []byte)) {
	s.askFor(of, key, epoch, asking{by: s.local(mine), value: func(a rankwire.Answer) {
		var value []byte
		if m.failed = m.failed || a.What != rankwire.Found || len(a.Value) == 0 || a.Value[0] != 0; !m.failed {
			value = a.Value[1:]
		}
		then(value)
	}})
}

// own goes on when all of this job have joined: to the other jobs, if there are any.
func (s *Server) own(m *meeting) {
	s.takeShared(m)
	if len(m.jobs) == 0 || m.failed {
		s.conclude(m)
		return
	}
	r := m.waiting[slices.Min(slices.Collect(maps.Keys(m.waiting)))].rank
	if m.whole && s.here(0) || !m.whole && s.here(m.slots[0]) {
		s.consult(r, rankwire.Name{
			Do: rankwire.NamePublish, Service: "c " + m.turn + " " + s.namespace, Port: string(s.describeSelf()),
		}, func(rankwire.Name) {})
	}
	m.missing = len(m.jobs)
	for _, namespace := range m.jobs {
		s.consult(r, rankwire.Name{
			Do: rankwire.NameLookup, Service: "c " + m.turn + " " + namespace, Wait: true,
		}, func(n rankwire.Name) {
			m.failed = m.failed || !s.learn(namespace, n.Port)
			if m.missing--; m.missing == 0 {
				s.conclude(m)
			}
		})
	}
}

// conclude answers the members.
func (s *Server) conclude(m *meeting) {
	delete(s.meetings.open, m.name)
	for _, slot := range slices.Sorted(maps.Keys(m.waiting)) {
		a := pmix.Answer{Status: pmix.Unreachable}
		m.waiting[slot].rank.waiting--
		if one := m.waiting[slot]; !m.failed {
			a.Status = pmix.Done
			if one.body != nil {
				a.Body = one.body(m)
			}
		}
		s.answer(m.waiting[slot].waiter, a)
	}
}

// absent takes the end of a rank of this node: meetings of some ranks that it has not joined fail.
func (s *Server) absent(r *rank) {
	byName := func(a, b meetingName) int { return bytes.Compare(a[:], b[:]) }
	for _, name := range slices.SortedFunc(maps.Keys(s.meetings.open), byName) {
		m := s.meetings.open[name]
		_, member := slices.BinarySearch(m.slots, r.slot)
		if _, joined := m.waiting[r.slot]; member && !joined && !m.whole {
			s.gather(m, r.epoch)
		}
	}
}

func (s *Server) connect(w waiter, q pmix.Connect) {
	s.meet(w, q.Procs, purpose{what: "connect", timeout: q.Timeout, body: func(m *meeting) pmix.Body {
		var jobs pmix.Jobs
		for _, namespace := range m.jobs {
			jobs.Jobs = append(jobs.Jobs, describeRelated(namespace, s.related[namespace]))
		}
		return jobs
	}})
}
