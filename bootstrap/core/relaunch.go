package core

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// In a job that restarts ranks and repairs its tree, the ranks of a lost node start again in the
// repaired tree (docs/dev/decisions/0021-tree-repair.md). The parent that has adopted the children of a
// lost agent keeps its place, which is a child without a link; what is asked of it waits there. The
// rest is as in replace.go, which starts an agent in a place, as a leaf.
//
//	at the parent:  lost --children adopted--> place, Report --Replace--> replace.go
//	                                           place --Failures of its ranks--> lost for good
//	at the root:    Report --> a sweep --has looked--> Replace, on its own host
//	                                   --cannot-----> Replace, on a spare --> none: lost for good
//	                host silent, or lost again soon --> Replace, on a spare --> none: lost for good
//
// Any agent between the two may be lost with what it passes on. So each keeps the newest Replace of
// a node for children that it adopts, and the newest Replaced for a new parent, and a number says
// which order is meant. An agent that waits for its Respawn says so to whoever adopts it.

const (
	// againSoon is how long ago the last loss of a node may be, so that a spare is better.
	againSoon = time.Minute
	// orphanEnd is how long after the last frame from its parent an agent of such a job gives up waiting
	// for another parent. The one above sees a silent host after 7 to 8 s, and then opens sessions.
	orphanEnd = 11500 * time.Millisecond
	// repairEnd is the same for the end of its ranks, as ownEnd is counted.
	repairEnd = orphanEnd + heartbeatEvery + time.Second
	// stuckEnd is how long after its loss an agent whose host answered has been ended by its reaper.
	stuckEnd = 15 * time.Second
	// mostReplaced is how often nodes are replaced: numbers of reports and places in streams have
	// room for so many.
	mostReplaced = 1<<16 - 1
)

// relaunches reports whether the ranks of lost nodes start again in a repaired tree.
func (c *Core) relaunches() bool {
	return c.repairs() && c.job.Launch.Restarts && !c.job.Launch.RestartAll
}

// placesOf makes a place of each lost node whose ranks may start again, and returns the others. What
// is below an agent that nobody knows is lost for good.
func (c *Core) placesOf(k branch, lost job.Parts) (places []Link, others job.Parts) {
	if !c.relaunches() || !k.knowsBelow() && lost.Len() > 1 {
		return nil, lost
	}
	for _, p := range lost {
		for i := range p.Nodes.Len() {
			one := p.Slice(i, i+1)
			if one.Nodes.Ranks() == 0 || recovery.Covers(c.recovery.Lost(), one.Nodes.Base()) {
				others = others.Add(one)
				continue
			}
			local := k.local
			if one.First != k.head.First {
				local = c.here(one) == 0
			}
			l := c.addBranch(one, tried{}, child.Lost)
			c.children[l].local = local
			c.tellRecovery(recovery.ChildVacant{Child: l})
			places = append(places, l)
		}
	}
	return places, others
}

// abandonPlaces gives up the children that are places of such nodes.
func (c *Core) abandonPlaces(ranks rankwire.SlotSpans) {
	for i := range c.children {
		if k := &c.children[i]; k.In(child.Lost) && recovery.Covers(ranks, k.head.Nodes.Base()) {
			if s, ok := c.successorOf(Link(i)); ok {
				c.happen(s, child.Abandon, nil)
			}
			c.happen(Link(i), child.Abandon, nil)
		}
	}
}

// successorOf returns the child that will replace the child lost. It returns false if lost has no successor, or if the
// successor is ready already.
func (c *Core) successorOf(lost Link) (Link, bool) {
	i := slices.IndexFunc(c.children, func(k branch) bool { return k.In(child.Replacing) && k.old == lost })
	return Link(i), i >= 0
}

// relaunchLost lets the ranks of a lost node start again; false: they are lost for good.
func (c *Core) relaunchLost(f wire.Fault) bool {
	if !c.relaunches() || c.stage != running || f.Nodes != 1 || uint32(f.Node) >= c.job.Layout.Nodes() {
		return false
	}
	first, count := c.job.Layout.SlotsOn(f.Node)
	span, silent := recovery.Span{First: first, Count: count}, f.Cause == hostSilent || f.Cause == hostLost
	spares := c.root.members.spares.Len() > 0
	switch {
	case count == 0 || c.root.replaced == mostReplaced || silent && !spares || c.recovery.RestartsAll():
		return false
	case recovery.Covers(c.recovery.Lost(), first) || recovery.Covers(c.recovery.Losing(), first):
		return true // another agent has said so
	case c.root.pmi && c.cfg.Policy.RepairAsked:
		return false
	case c.root.pmi:
		c.endOfLost(f, usesPMI)
		return true
	}
	at, before := c.root.lostAt[f.Node]
	if c.root.lostAt == nil {
		c.root.lostAt = map[job.NodeIndex]time.Duration{}
	}
	c.root.lostAt[f.Node] = c.now
	r := c.openReplacement(f, span)
	c.tellRecovery(recovery.NodeLost{Fault: f, Span: span, Spawned: c.root.offspring.live > 0})
	switch {
	case c.stage != running:
	case silent || before && c.now-at < againSoon && spares:
		c.nextSpare(r)
	case c.job.Launch.Contain: // nobody looks at the node
		c.ownHost(r)
	}
	return true
}

// endOfLost ends the job because of the loss of a node.
func (c *Core) endOfLost(f wire.Fault, why string) {
	f.Cause = recovery.Joined(f.Cause, why)
	c.endFor(f)
	c.sweepLost(f)
}

// ownHost lets the agent of a lost node start again where it was.
func (c *Core) ownHost(r *replacement) {
	m := &c.root.members
	node, _ := c.nodeAt(r.fault.Node)
	at := int(m.original(r.fault.Node) - m.all.First)
	run := m.all.Nodes.Slice(at, at+1).Runs()[0]
	if i := c.cfg.Policy.Spares.Index(node.Host); i >= 0 {
		run = c.cfg.Policy.Spares.Slice(i, i+1).Runs()[0]
	}
	c.orderReplace(r, run)
}

// orderReplace lets an agent on a host take a place.
func (c *Core) orderReplace(r *replacement, host job.Run) {
	host.Ranks = r.span.Count
	c.root.replaced++
	r.number, r.ordered = c.root.replaced, true
	c.replaceBelow(wire.Replace{
		Number: r.number, Part: job.Part{First: r.fault.Node, Nodes: job.NewNodes(r.span.First, []job.Run{host})},
	})
}

// replaceOnce notes an order to replace a node; false: it has come before.
func (c *Core) replaceOnce(m wire.Replace) bool {
	r := &c.repair
	if r.replaces[m.Part.First].Number >= m.Number {
		return false
	}
	if r.replaces == nil {
		r.replaces = map[job.NodeIndex]wire.Replace{}
	}
	r.replaces[m.Part.First] = m
	return true
}

// replaceAgain repeats the orders to replace nodes of an adopted child.
func (c *Core) replaceAgain(l Link) {
	for _, node := range slices.Sorted(maps.Keys(c.repair.replaces)) {
		if k := &c.children[l]; k.hasNode(node) && k.head.First != node {
			c.send(l, c.repair.replaces[node])
		}
	}
}

// loseNodes takes a loss that the job survives. It is what the job has failed of.
func (c *Core) loseNodes(f wire.Fault) {
	if c.recovery.RestartsAll() && c.stage != ending {
		c.endOfLost(f, "all ranks were about to start again")
		return
	}
	c.blame(f, weightOf(f))
	if c.root.out.Fault != f && c.stage != ending {
		c.reportBlame()
		c.do(Report{f})
	}
	c.sweepLost(f)
	if c.relaunches() && f.Nodes == 1 && uint32(f.Node) < c.job.Layout.Nodes() {
		if first, count := c.job.Layout.SlotsOn(f.Node); count > 0 && !recovery.Covers(c.recovery.Losing(), first) {
			c.tellRecovery(recovery.RanksLost{Ranks: oneSpan(first, count)}) // its parent has kept the place
		}
	}
}

// spokePMI ends a job in which a rank that has started again uses PMI.
func (c *Core) spokePMI() {
	if c.repair.number == 0 || !c.relaunches() || !c.starts.begun || c.stage == ending || c.repair.refused {
		return
	}
	c.repair.refused = true
	c.fault(wire.Fault{
		What: wire.FaultRank, Node: c.ranks.index, Nodes: 1, Rank: c.below.Own.First(), Count: 1, Awaited: true,
		Status: exitStatus(1), Host: c.cfg.Host, Parent: c.cfg.Host,
		Cause: fmt.Sprintf("its node was lost and it has started again on %s", c.cfg.Host),
	})
}
