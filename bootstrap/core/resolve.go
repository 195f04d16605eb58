package core

import (
	"cmp"
	"slices"
	"time"

	"ibrun/bootstrap/rankwire"
	"ibrun/fabric"
	"ibrun/job"
)

// The resolution of ranks: a question goes towards the agent of the asked
// rank until somebody knows, and the answer is kept by all on its way back.
//
//	asked --own rank--> answered, or parked until it has published
//	asked --cached--> answered
//	asked --in flight already--> waits with the others
//	asked --> passed on: to the child that covers the rank, else to the parent

// requester is what waits for an answer: a rank of this node, or a link.
type requester struct {
	rank job.Slot // of this node, if local
	link Link
	here bool
	ask  rankwire.Ask
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
	to      Link
	waiting []requester
}

// resolve is an agent's part in answering questions.
type resolve struct {
	blocks blocks             // in package fabric's form
	values map[subject][]byte // of other nodes' ranks
	kept   int                // bytes in values
	open   map[subject]*question
}

// keepValues bounds the values of other nodes that an agent keeps, in bytes.
// Blocks are not bounded: a node's is some sixty bytes, and there are as many
// as nodes that this subtree talks to.
const keepValues = 8 << 20

// counts are this level's of the questions about addresses. Those about values
// of the key-value store (KVS) are not counted with them.
func (c *Core) counts(m rankwire.Ask) *job.LevelTally {
	if m.Key != "" {
		return &job.LevelTally{}
	}
	return c.tally.Level(c.level)
}

func (c *Core) subject(m rankwire.Ask) subject {
	s := subject{node: c.job.Layout.NodeOf(m.Rank), key: m.Key, fresh: m.Fresh}
	if m.Key != "" || m.Fresh {
		s.rank = m.Rank
	}
	return s
}

// asked takes a question from a rank or a link.
func (c *Core) asked(a requester) {
	if c.job == nil {
		return
	}
	c.counts(a.ask).Asked++
	switch {
	case uint32(a.ask.Rank) >= c.job.Layout.Ranks():
		c.answer(a, rankwire.Answer{What: rankwire.NoRank})
	case c.below.Own.Has(a.ask.Rank):
		c.counts(a.ask).Own++
		c.askOwn(a)
	default:
		c.lookUp(a)
	}
}

// lookUp answers from the cache or asks on.
func (c *Core) lookUp(a requester) {
	if v, ok := c.known(a.ask); ok {
		c.counts(a.ask).Hit++
		c.answer(a, rankwire.Answer{Value: v})
		return
	}
	if c.table.waits(c, a) {
		return
	}
	c.askOn(a)
}

// known returns what the cache has that satisfies a question.
func (c *Core) known(m rankwire.Ask) ([]byte, bool) {
	if m.Fresh {
		return nil, false
	}
	if m.Key != "" {
		v, ok := c.resolve.values[c.subject(m)]
		return v, ok
	}
	v := c.resolve.blocks.of(c.job.Layout.NodeOf(m.Rank))
	return v, satisfies(v, m)
}

// satisfies reports whether a block has the asked rank in a new enough epoch.
func satisfies(block []byte, m rankwire.Ask) bool {
	epoch := fabric.Published(block, uint32(m.Rank))
	return epoch > 0 && epoch >= m.Least
}

// askOn passes a question on, unless the same one is in flight.
func (c *Core) askOn(a requester) {
	s := c.subject(a.ask)
	if q := c.resolve.open[s]; q != nil {
		c.counts(a.ask).Merged++
		q.waiting = append(q.waiting, a)
		return
	}
	to, ok := c.below.Towards(a.ask.Rank)
	switch {
	case !ok && c.below.Exited(a.ask.Rank):
		c.answer(a, rankwire.Answer{What: rankwire.Exited})
		return
	case !ok, to == Up && !a.here && a.link == Up: // it was to be here, and never started
		c.answer(a, rankwire.Answer{What: rankwire.Failed})
		return
	}
	if c.resolve.open == nil {
		c.resolve.open = map[subject]*question{}
	}
	c.resolve.open[s] = &question{to: to, waiting: []requester{a}}
	c.counts(a.ask).Relayed++
	if a.here && a.ask.Key != "" {
		c.tally.Sum[job.CountAway]++
	}
	c.send(to, a.ask)
}

// route finds out which child has which ranks, when that is certain.
func (c *Core) route() {
	c.below.Route(func(l Link) job.Parts { return c.children[l].part })
}

// answer gives a requester what it asked for.
func (c *Core) answer(a requester, m rankwire.Answer) {
	m.Rank, m.Key, m.Fresh = a.ask.Rank, a.ask.Key, a.ask.Fresh
	if a.here {
		c.do(SendRank{a.rank, m})
		return
	}
	c.send(a.link, m)
}

// reply answers from this very agent.
func (c *Core) reply(a requester, what rankwire.Answered, value []byte) {
	c.answer(a, rankwire.Answer{What: what, Value: value})
}

// answered takes the answer to a question that this agent passed on. Those
// who waited and are not served by it, because it names another rank of the
// node or an older epoch, ask again.
func (c *Core) answered(from Link, m rankwire.Answer) {
	s := c.subject(rankwire.Ask{Rank: m.Rank, Key: m.Key, Fresh: m.Fresh})
	q := c.resolve.open[s]
	delete(c.resolve.open, s)
	if m.What == rankwire.Found {
		c.keep(s, m)
	}
	for _, a := range q.waiting {
		served := a.ask.Rank == m.Rank
		if m.What == rankwire.Found && m.Key == "" {
			served = satisfies(m.Value, a.ask)
		}
		if served {
			c.answer(a, m)
		} else {
			c.askOn(a)
		}
	}
}

// keep puts an answer into the cache.
func (c *Core) keep(s subject, m rankwire.Answer) {
	r := &c.resolve
	if m.Key == "" {
		r.blocks.keep(s.node, m.Value)
		return
	}
	s.fresh = false
	if r.values == nil {
		r.values = map[subject][]byte{}
	}
	if r.kept += len(m.Key) + len(m.Value); r.kept > keepValues {
		clear(r.values) // they are asked for again by those who still need them
		r.kept = len(m.Key) + len(m.Value)
	}
	r.values[s] = m.Value
}

// about lists the questions in flight that went to a link.
func (c *Core) about(l Link) (list []subject) {
	for s, q := range c.resolve.open {
		if q.to == l {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, subject.compare)
	return list
}

// answerLost answers the questions that a child took with it.
func (c *Core) answerLost(l Link, what rankwire.Answered) {
	for _, s := range c.about(l) {
		q := c.resolve.open[s]
		delete(c.resolve.open, s)
		for _, a := range q.waiting {
			c.answer(a, rankwire.Answer{What: what})
		}
	}
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

// resolveDue does what waited for a time.
func (c *Core) resolveDue() {
	if len(c.own.parked) > 0 {
		c.unpark()
	}
	c.table.due(c)
	if len(c.table.early) > 0 {
		c.wakeAt(c.table.giveUp)
	}
}

// partialAfter is how long a question about a rank that has published waits for
// the other ranks of its node, so that one block serves for all.
const partialAfter = 10 * time.Millisecond
