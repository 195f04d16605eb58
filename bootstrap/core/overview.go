package core

import (
	"slices"

	"ibrun/bootstrap/rankwire"
	"ibrun/job"
)

// Ranks ask what all ranks do (docs/dev/decisions/0026-gdb-pipe-overview.md). Whoever asks while a question
// is open gets the answer to it: one goes up and one answer down on each edge, however many ask.

// overview is the open question of ranks.
type overview struct {
	open  bool
	id    uint32     // of the query, at the root
	ranks []job.Slot // of this node that wait for the answer
	links []Link     // to children that do
}

// overviewRows is how many single ranks an answer has: those that are furthest behind.
const overviewRows = 64

// overviewPatience is how long an answer may take, in milliseconds.
const overviewPatience = 10_000

// overviewFor takes the question of a rank of this node.
func (c *Core) overviewFor(rank job.Slot) {
	if !slices.Contains(c.overview.ranks, rank) {
		c.overview.ranks = append(c.overview.ranks, rank)
	}
	c.askOverview()
}

// overviewBelow takes the question of a child's subtree.
func (c *Core) overviewBelow(l Link) {
	c.overview.links = append(c.overview.links, l)
	c.askOverview()
}

func (c *Core) askOverview() {
	o := &c.overview
	if o.open {
		return
	}
	o.open = true
	if !c.cfg.Root {
		c.send(Up, rankwire.Overview{})
		return
	}
	o.id = c.queries.Next()
	c.doQueries(c.queries.Ask(c.now, o.id, rankwire.Question{
		What: rankwire.LookAtRanks, Rows: overviewRows, PatienceMs: overviewPatience,
	}))
}

// overviewAgain repeats the question to a new parent.
func (c *Core) overviewAgain() {
	if c.overview.open {
		c.send(Up, rankwire.Overview{})
	}
}

// overviewed gives the answer to all who wait for it.
func (c *Core) overviewed(m rankwire.OverviewReply) {
	asked := c.overview
	c.overview = overview{}
	for _, l := range asked.links {
		c.send(l, m)
	}
	for _, rank := range asked.ranks {
		if !c.below.Own.Of(rank).Ended() {
			c.do(SendRank{rank, m})
		}
	}
}
