// Package lookup answers questions about ranks for one agent: where a rank can be reached, and what
// it has put on the key-value store (KVS). A question goes towards the agent of the asked rank
// until somebody knows, and the answer is kept by all on its way back.
//
//	asked --own rank--> answered, or parked until it has published
//	asked --cached--> answered
//	asked --in flight already--> waits with the others
//	asked --> passed on: to the child that covers the rank, else to the parent
//
// In eager mode, questions wait for the table of all nodes instead, for a while. In a job that
// chooses, a small table comes while questions are asked, and a node that has asked for enough
// fetches a large one (fetch.go). The package does not look into values, and it connects nobody.
//
// The package has two further types. Names is the name service of MPI (MPI_Publish_name) at the root of a job: it maps
// the name of a service to the port that a rank has published. A job and all jobs that its ranks spawn share one Names,
// so the root of a spawned job passes questions to the job that spawned it. Pairs decides when two ranks of a node get
// a socket pair: when both have joined and their epochs belong together.
package lookup

import (
	"cmp"
	"slices"
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Do is what an effect asks for.
type Do uint8

const (
	Send  Do = iota // Msg to To
	Table           // put Blocks on the link To
	Wake            // call Due at At, at the latest
	Abort           // the rank To ends the job, as if it had sent Msg
	Fetch           // ask for the blocks of all nodes, for the Round-th time
)

// Party is who asks or is sent something: a rank of this node, or a neighbour.
type Party struct {
	Here bool
	Rank job.Slot     // if Here
	Link subtree.Link // if not
}

// Rank is a rank of this node.
func Rank(rank job.Slot) Party { return Party{Here: true, Rank: rank} }

// Neighbour is the agent on a link.
func Neighbour(l subtree.Link) Party { return Party{Link: l} }

// Effect is something that the core must do.
type Effect struct {
	Do     Do
	To     Party
	Msg    frame.Message // of rankwire
	Blocks frame.Values
	At     time.Duration
	Round  uint32
}

// Lookups is one agent's part in answering questions.
type Lookups struct {
	Counts       job.LevelTally // of the questions about addresses
	Away         uint64         // questions of own ranks about values, passed on
	AddressBytes uint64         // of tables, on all links

	Eager bool // the blocks of all nodes are gathered and handed out
	waits bool // and questions wait for them

	below *subtree.Subtree
	now   time.Duration
	out   []Effect
	cache cache
	open  map[subject]*question
	own   own
	table table
	fetch fetch

	resized bool // ranks may have left the job
}

// requester waits for the answer to its question.
type requester struct {
	Party
	ask rankwire.Ask
}

// subject is what one question in flight is about.
type subject struct {
	node  job.NodeIndex
	rank  job.Slot // with a key, or fresh; 0 for a node's block
	key   string
	fresh bool
}

// question is one question in flight.
type question struct {
	to      subtree.Link
	ask     rankwire.Ask
	waiting []requester
}

// New makes the look-ups of an agent with a subtree.
func New(below *subtree.Subtree) Lookups { return Lookups{below: below} }

func (l *Lookups) do(e Effect) { l.out = append(l.out, e) }

func (l *Lookups) send(to Party, m frame.Message) { l.do(Effect{Do: Send, To: to, Msg: m}) }

func (l *Lookups) wake(at time.Duration) { l.do(Effect{Do: Wake, At: at}) }

// done returns what was done since the last event.
func (l *Lookups) done() []Effect {
	out := l.out
	l.out = l.out[:0]
	return out
}

// Ask takes a question.
func (l *Lookups) Ask(now time.Duration, from Party, ask rankwire.Ask) []Effect {
	l.now = now
	ask.Least = l.raised(ask)
	a := requester{from, ask}
	l.counts(ask).Asked++
	switch {
	case uint32(ask.Rank) >= l.below.Layout.Ranks():
		l.answer(a, rankwire.Answer{What: rankwire.NoRank})
	case l.below.Own.Has(ask.Rank):
		l.counts(ask).Own++
		l.askOwn(a)
	default:
		l.lookUp(a)
	}
	return l.done()
}

// Answered takes the answer to a question that this agent passed on. Those who waited and are not
// served by it, because it names another rank of the node or an older epoch, ask again. Stale: it
// may be older than the floor of the rank.
func (l *Lookups) Answered(m rankwire.Answer, stale bool) []Effect {
	if l.hasLeft(m.Rank) {
		return nil
	}
	s := l.subject(rankwire.Ask{Rank: m.Rank, Key: m.Key, Fresh: m.Fresh})
	q := l.open[s]
	if q == nil {
		return nil
	}
	delete(l.open, s)
	stale = stale && l.below.Floors.Of(m.Rank) > 0 && (m.Key != "" || m.What != rankwire.Found)
	if m.What == rankwire.Found && !stale {
		l.cache.keep(s, m)
	}
	for _, a := range q.waiting {
		served := a.ask.Rank == m.Rank && !stale
		if m.What == rankwire.Found && m.Key == "" {
			served = satisfies(m.Value, a.ask)
		}
		if served {
			l.answer(a, m)
		} else {
			l.askOn(a)
		}
	}
	return l.done()
}

// ChildEnded answers the questions that a child took with it.
func (l *Lookups) ChildEnded(child subtree.Link) []Effect {
	for _, s := range l.about(child) {
		q := l.open[s]
		delete(l.open, s)
		for _, a := range q.waiting {
			l.answer(a, rankwire.Answer{What: l.ending(child)})
		}
	}
	return l.done()
}

// ending is what became of the ranks of a child that has ended.
func (l *Lookups) ending(child subtree.Link) rankwire.Answered {
	if l.below.Exited(child) {
		return rankwire.Exited
	}
	return rankwire.Failed
}

// Due does what waited for a time. It may be called at any time.
func (l *Lookups) Due(now time.Duration) []Effect {
	l.now = now
	if len(l.own.parked) > 0 {
		l.unpark()
	}
	l.tableDue()
	return l.done()
}

// counts are those of the questions about addresses. Those about values are not counted with them.
func (l *Lookups) counts(m rankwire.Ask) *job.LevelTally {
	if m.Key != "" {
		return &job.LevelTally{}
	}
	return &l.Counts
}

func (l *Lookups) subject(m rankwire.Ask) subject {
	s := subject{node: l.below.Layout.NodeOf(m.Rank), key: m.Key, fresh: m.Fresh}
	if m.Key != "" || m.Fresh {
		s.rank = m.Rank
	}
	return s
}

// lookUp answers from the cache or asks on.
func (l *Lookups) lookUp(a requester) {
	if v, ok := l.known(a.ask); ok {
		l.counts(a.ask).Hit++
		l.answer(a, rankwire.Answer{Value: v})
		return
	}
	if l.waitsForTable(a) || l.waitsForFetch(a) {
		return
	}
	l.askOn(a)
}

// known returns what the cache has that satisfies a question.
func (l *Lookups) known(m rankwire.Ask) ([]byte, bool) {
	if m.Fresh {
		return nil, false
	}
	if m.Key != "" {
		v, ok := l.cache.values[l.subject(m)]
		return v, ok
	}
	v := l.cache.block(l.below.Layout.NodeOf(m.Rank))
	return v, satisfies(v, m)
}

// askOn passes a question on, unless the same one is in flight.
func (l *Lookups) askOn(a requester) {
	s := l.subject(a.ask)
	if q := l.open[s]; q != nil {
		l.counts(a.ask).Merged++
		q.waiting = append(q.waiting, a)
		return
	}
	to, ok := l.below.Towards(a.ask.Rank)
	switch {
	case !ok && to != subtree.Up:
		l.answer(a, rankwire.Answer{What: l.ending(to)})
		return
	case !ok, to == subtree.Up && !a.Here && a.Link == subtree.Up: // it was to be here, and never started
		l.answer(a, rankwire.Answer{What: rankwire.Failed})
		return
	}
	if l.open == nil {
		l.open = map[subject]*question{}
	}
	l.open[s] = &question{to: to, ask: a.ask, waiting: []requester{a}}
	l.counts(a.ask).Relayed++
	if a.Here && a.ask.Key != "" {
		l.Away++
	}
	l.send(Neighbour(to), a.ask)
	l.countAsked(a)
}

// answer gives a requester what it asked for.
func (l *Lookups) answer(a requester, m rankwire.Answer) {
	m.Rank, m.Key, m.Fresh = a.ask.Rank, a.ask.Key, a.ask.Fresh
	l.send(a.Party, m)
}

// about lists the questions in flight that went to a link.
func (l *Lookups) about(to subtree.Link) (list []subject) {
	for s, q := range l.open {
		if q.to == to {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, subject.compare)
	return list
}

// compare orders subjects, so that what is done for several is done in one order.
func (s subject) compare(o subject) int {
	fresh := 0
	if s.fresh != o.fresh {
		if fresh = -1; s.fresh {
			fresh = 1
		}
	}
	return cmp.Or(cmp.Compare(s.node, o.node), cmp.Compare(s.rank, o.rank), cmp.Compare(s.key, o.key), fresh)
}
