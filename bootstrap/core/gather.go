package core

import (
	"fmt"
	"slices"

	"ibrun/bootstrap/rankwire"
	"ibrun/job"
)

// A collective is one message up and one down on each edge. Ranks call
// collectives in the same order, so a number names each.
//
//	joining --all ranks and children heard--> collected, sent up --Release--> done
//	                                          at the root: released at once
type gathering struct {
	what    rankwire.Collective
	root    job.Rank
	trouble string
	leaving rankwire.Parcels // for ranks outside this subtree, or for everyone
	kept    rankwire.Parcels // for ranks of this subtree
	sent    bool
}

// joined takes the part of a rank of this node.
func (c *Core) joined(rank job.Slot, r *local, m rankwire.Collect) {
	r.op++
	switch {
	case m.Op != r.op:
		m.Trouble = c.named(rank, 1) + " counts its collectives wrongly"
	case !c.ownParcels(rank, m.Parcels):
		m.Trouble = c.named(rank, 1) + " sends what is another's, or for no rank"
	}
	m.Op = r.op
	c.gather(m, c.named(rank, 1))
	c.checkGather(m.Op)
}

// ownParcels reports whether parcels are a rank's own, and for ranks that there are.
func (c *Core) ownParcels(rank job.Slot, parcels rankwire.Parcels) bool {
	for p := range parcels.All() {
		if p.From != rank || p.To != rankwire.Everyone && uint32(p.To) >= c.job.Layout.Ranks() {
			return false
		}
	}
	return true
}

// collected takes the part of a child's subtree.
func (c *Core) collected(l Link, m rankwire.Collect) {
	k := &c.children[l]
	k.op = m.Op
	c.gather(m, c.named(k.head.Nodes.Base(), 1)+" or one after it")
	c.checkGather(m.Op)
}

// named is the ranks of the slots [first, first+count), for the user.
func (c *Core) named(first job.Slot, count uint32) string {
	l := c.job.Layout
	switch {
	case count == 1:
		return fmt.Sprintf("rank %d", l.Rank(first))
	case l.Plane() == 0:
		return fmt.Sprintf("ranks %d to %d", first, first+job.Slot(count)-1)
	}
	return fmt.Sprintf("rank %d and %d more", l.Rank(first), count-1)
}

// gather adds a part to its collective.
func (c *Core) gather(m rankwire.Collect, who string) {
	if c.gathers == nil {
		c.gathers = map[uint32]*gathering{}
	}
	g := c.gathers[m.Op]
	if g == nil {
		g = &gathering{what: m.What, root: m.Root}
		c.gathers[m.Op] = g
	}
	g.fail(m.Trouble)
	if m.What != g.what || m.Root != g.root {
		g.fail(fmt.Sprintf("%s called %v of root %d, others %v of root %d", who, m.What, m.Root, g.what, g.root))
	}
	if g.trouble != "" {
		return
	}
	parts := m.Parcels.Split(2, func(p rankwire.Parcel) int {
		if p.To != rankwire.Everyone && c.below.Covers(p.To) {
			return 0
		}
		return 1
	})
	g.kept.Add(parts[0])
	g.leaving.Add(parts[1])
	if g.kept.Size()+g.leaving.Size() > rankwire.MaxGather {
		g.fail(tooMuch(g.what))
	}
}

func tooMuch(what rankwire.Collective) string {
	return fmt.Sprintf("%v of more than %d MB: too much for the launch tree; send such values from rank to rank", what, rankwire.MaxGather>>20)
}

// fail records why a collective fails; what it carried is not needed any more.
func (g *gathering) fail(trouble string) {
	if trouble == "" {
		return
	}
	if g.trouble == "" {
		g.trouble = trouble[:min(len(trouble), 1000)]
	}
	g.leaving, g.kept = rankwire.Parcels{}, rankwire.Parcels{}
}

// checkGathers looks at every open collective: somebody has ended.
func (c *Core) checkGathers() {
	ops := make([]uint32, 0, len(c.gathers))
	for op := range c.gathers {
		ops = append(ops, op)
	}
	slices.Sort(ops)
	for _, op := range ops {
		c.checkGather(op)
	}
}

// checkGather sends a collective on when all of this subtree have joined or
// can join no more.
func (c *Core) checkGather(op uint32) {
	g := c.gathers[op]
	if g == nil || g.sent {
		return
	}
	for rank, p := range c.below.Own.All() {
		if c.local(rank).op < op {
			if !p.Ended() || p.MayReturn() {
				return
			}
			g.fail(c.named(rank, 1) + " ended before it joined")
		}
	}
	for i := range c.children {
		if k := &c.children[i]; k.op < op {
			if k.state != childEnded {
				return
			}
			for _, p := range k.part {
				g.fail(c.named(p.Nodes.Base(), p.Nodes.Ranks()) + " ended before all had joined")
			}
		}
	}
	g.sent = true
	if g.what == rankwire.Barrier && c.cfg.Join != nil {
		g.leaving = c.cfg.Join(g.leaving)
	}
	if c.cfg.Root {
		c.release(rankwire.Release{Op: op, What: g.what, Root: g.root, Trouble: g.trouble, Parcels: g.leaving})
		return
	}
	c.send(Up, rankwire.Collect{Op: op, What: g.what, Root: g.root, Trouble: g.trouble, Parcels: g.leaving})
	g.leaving = rankwire.Parcels{}
	c.countBarrier(g.what)
}

// countBarrier counts what a barrier sends over the edge to the parent.
func (c *Core) countBarrier(what rankwire.Collective) {
	if what == rankwire.Barrier && !c.cfg.Root {
		c.tally.Sum[job.CountBarriers]++
	}
}

// release hands the outcome of a collective to the ranks and subtrees below.
func (c *Core) release(m rankwire.Release) {
	g := c.gathers[m.Op]
	delete(c.gathers, m.Op)
	c.passed = max(c.passed, m.Op)
	c.countBarrier(m.What)
	parcels := m.Parcels.Join(g.kept)
	if m.Trouble != "" {
		parcels = rankwire.Parcels{}
	}
	// A class for each child, one for each rank here, and the last for everyone.
	children, everyone := len(c.children), len(c.children)+len(c.ranks.locals)
	parts := parcels.Split(everyone+1, func(p rankwire.Parcel) int {
		switch l, below := c.below.Child(p.To); {
		case p.To == rankwire.Everyone:
			return everyone
		case c.below.Own.Has(p.To):
			return children + c.below.Own.Index(p.To)
		case below:
			return int(l)
		}
		return -1
	})
	to := func(class int) rankwire.Release {
		part := m
		if part.Parcels = parts[class].Join(parts[everyone]); part.Parcels.Size() > rankwire.MaxGather {
			part.Parcels, part.Trouble = rankwire.Parcels{}, tooMuch(m.What)
		}
		return part
	}
	for i := range c.children {
		c.send(Link(i), to(i))
	}
	for rank, p := range c.below.Own.All() {
		if !p.Ended() {
			c.do(SendRank{rank, to(children + c.below.Own.Index(rank))})
		}
	}
}

// exitStatus is the status of a program that ended with a code.
func exitStatus(code uint8) job.Status { return job.Status{Kind: job.Exited, Code: code} }
