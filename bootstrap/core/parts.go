package core

import (
	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/core/collective"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/core/lookup"
	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// The functions in this file perform the effects that the components of the core return. They clear each slice of
// effects afterwards. The component reuses the slice, which would otherwise retain large values.

// perform performs the effects of a component. All effects except Send, Wake and Violation are for the driver.
func (c *Core) perform(effects []Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case Send:
			c.send(e.To, e.Msg)
		case subtree.Wake:
			c.wakeAt(e.At)
		case flow.Violation:
			c.distrust(Up, e.Msg, e.Rule)
		default:
			c.do(e)
		}
	}
	clear(effects)
}

// toolPlace returns the state of this agent for package flow, which manages daemons and tool sessions.
func (c *Core) toolPlace() flow.Place {
	return flow.Place{
		Now: c.now, Host: c.cfg.Host, Index: c.ranks.index, Running: c.stage == running, Forked: c.starts.ranks == forked,
		Settled: func(l Link) bool { return c.children[l].In(child.Settled) }, HostOf: c.hostOf,
	}
}

// hostOf returns the host of the node at offset k in p. It is called at the root. If a spare has replaced the node, p
// may still contain the host of the old node, because only the parent of the spare updates its part.
func (c *Core) hostOf(p job.Part, k int) string {
	if m := c.recovery.Members(); len(m.Replaced) > 0 {
		node, _ := m.At(p.First + job.NodeIndex(k))
		return node.Host
	}
	return p.Nodes.At(k).Host
}

// heldTools applies the messages about daemons that the parent sent while the ranks of this node were being started. It
// does nothing while the ranks are still being started.
func (c *Core) heldTools() {
	if c.tools.Waits() {
		c.perform(c.tools.Ready(c.toolPlace()))
	}
}

// toolsClosed kills the daemons of this node, because the job ends. It reports whether all orders for daemons in this
// subtree have ended. It is called again until they have.
func (c *Core) toolsClosed() bool {
	c.heldTools()
	c.perform(c.tools.Close(c.toolPlace()))
	return c.tools.Open() == 0
}

func (c *Core) doBulk(effects []lookup.BulkEffect) {
	var nothing uint32 // fence for which this node has no values; ReadDone is called last, because it returns effects
	for _, e := range effects {
		switch e.Do {
		case lookup.RequestBulk, lookup.CallBulk:
			c.send(e.To, wire.BulkFetch{Fence: e.Fence})
		case lookup.ReadBulk:
			if c.starts.ranks == unforked {
				nothing = e.Fence
				continue
			}
			c.do(ReadBulk{e.Fence})
		case lookup.SendBulk:
			c.send(e.To, wire.BulkValues{Fence: e.Fence, Values: e.Values})
		case lookup.DeliverBulk:
			c.do(BulkFetched{e.Fence, e.Values})
		}
	}
	clear(effects)
	if nothing > 0 {
		c.doBulk(c.bulk.ReadDone(nothing, nil))
	}
}

// doTables performs the effects of a bulk fetch of addresses. In contrast to doBulk, the core provides the values of
// this node, and delivers the values of all nodes to its lookups.
func (c *Core) doTables(effects []lookup.BulkEffect) {
	var read, here *lookup.BulkEffect // performed last, because these two cause further effects
	for _, e := range effects {
		switch e.Do {
		case lookup.RequestBulk, lookup.CallBulk:
			c.send(e.To, wire.TableFetch{Round: e.Fence})
		case lookup.ReadBulk:
			read = &e
		case lookup.SendBulk:
			c.lookups.CountBytes(e.Values)
			c.send(e.To, wire.TableValues{Round: e.Fence, Values: e.Values})
		case lookup.DeliverBulk:
			here = &e
		}
	}
	clear(effects)
	if read != nil {
		c.doTables(c.tables.ReadDone(read.Fence, c.lookups.Known()))
	}
	if here != nil {
		c.doLookups(c.lookups.Fetched(c.now, here.Fence, here.Values))
	}
}

func (c *Core) doLookups(effects []lookup.Effect) {
	var fetch uint32 // round to fetch; requested last, because the request returns effects
	for i := range effects {
		switch e := &effects[i]; e.Do {
		case lookup.Send:
			if e.To.Here {
				c.do(SendRank{e.To.Rank, e.Msg})
			} else {
				c.send(e.To.Link, e.Msg)
			}
		case lookup.Table:
			c.send(e.To.Link, wire.Blocks{Values: e.Blocks})
		case lookup.Wake:
			c.wakeAt(e.At)
		case lookup.Fetch:
			fetch = e.Round
		case lookup.Abort:
			c.aborted(e.To.Rank, e.Msg.(rankwire.Abort))
		}
	}
	clear(effects)
	if fetch > 0 {
		c.doTables(c.tables.Request(Up, fetch))
	}
}

func (c *Core) doCollectives(effects []collective.Effect) {
	var decide []rankwire.Release // performed last, because a decision causes effects of the same collectives
	for i := range effects {
		switch e := &effects[i]; e.Do {
		case collective.Collect:
			c.send(e.To, rankwire.Collect(e.Part))
		case collective.ReleaseChild:
			c.send(e.To, e.Part)
		case collective.ReleaseRank:
			c.do(SendRank{e.Rank, e.Part})
		case collective.Decide:
			decide = append(decide, e.Part)
		}
	}
	clear(effects)
	for _, part := range decide {
		c.decideResize(part)
	}
}

func (c *Core) doPairs(effects []lookup.PairEffect) {
	for _, e := range effects {
		if e.What == rankwire.Found {
			c.do(Connect{e.A, e.B})
		} else {
			c.do(SendRank{e.A, rankwire.Pair{Rank: e.B, What: e.What}})
		}
	}
}

func (c *Core) doNames(effects []lookup.NameEffect) {
	for _, e := range effects {
		switch {
		case e.Do == lookup.AskName:
			c.do(AskParent{e.Name})
		case e.Job == 0:
			c.toRank(e.Name.Rank, e.Name)
		default:
			c.do(AnswerJob{e.Job, e.Name})
		}
	}
}

// counted adds the counts of the components to c.tally and returns it. Call it once, at the end.
func (c *Core) counted() *job.Tally {
	if c.lookups.Counts != (job.LevelTally{}) {
		level := job.Tally{}
		*level.Level(c.level) = c.lookups.Counts
		c.tally.Add(&level)
	}
	c.tally.Sum[job.CountAway] += c.lookups.Away
	c.tally.Sum[job.CountAddressBytes] += c.lookups.AddressBytes
	c.tally.Sum[job.CountBulkFetches] += c.bulk.Started
	c.tally.Sum[job.CountBarriers] += c.collectives.Barriers
	return &c.tally
}
