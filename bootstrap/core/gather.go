package core

import (
	"fmt"
	"slices"

	"ibrun/bootstrap/wire"
	"ibrun/job"
)

// A collective is one message up and one down on each edge. Ranks call
// collectives in the same order, so a number names each.
//
//	joining --all ranks and children heard--> collected, sent up --Release--> done
//	                                          at the root: released at once
type gathering struct {
	what    wire.Collective
	root    uint32
	trouble string
	leaving []wire.Parcel // for ranks outside this subtree, or for everyone
	kept    []wire.Parcel // for ranks of this subtree
	size    int           // bytes of leaving and kept
	sent    bool
}

// joined takes the part of a rank of this node.
func (c *Core) joined(rank uint32, r *local, m wire.Collect) {
	r.op++
	if m.Op != r.op {
		m.Op, m.Trouble = r.op, c.named(rank, 1)+" counts its collectives wrongly"
	}
	c.gather(m, c.named(rank, 1))
	c.checkGather(m.Op)
}

// collected takes the part of a child's subtree.
func (c *Core) collected(l Link, m wire.Collect) {
	k := &c.kids[l]
	if m.Op <= k.op {
		return
	}
	k.op = m.Op
	c.gather(m, c.named(k.part[0].Nodes.Base(), 1)+" or one after it")
	c.checkGather(m.Op)
}

// named is a stretch of seats as the user knows their ranks.
func (c *Core) named(seat, count uint32) string {
	l := c.job.Layout
	switch {
	case count == 1:
		return fmt.Sprintf("rank %d", l.Rank(seat))
	case l.Plane() == 0:
		return fmt.Sprintf("ranks %d to %d", seat, seat+count-1)
	}
	return fmt.Sprintf("rank %d and %d more", l.Rank(seat), count-1)
}

// gather adds a part to its collective.
func (c *Core) gather(m wire.Collect, who string) {
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
	for _, p := range m.Parcels {
		g.size += len(p.Value) + wire.ParcelHead
		if p.To != wire.Everyone && c.covers(p.To) {
			g.kept = append(g.kept, p)
		} else {
			g.leaving = append(g.leaving, p)
		}
	}
	if g.size > wire.MaxGather {
		g.fail(tooMuch(g.what))
	}
}

func tooMuch(what wire.Collective) string {
	return fmt.Sprintf("%v of more than %d MB: too much for the launch tree; send such values from rank to rank", what, wire.MaxGather>>20)
}

// fail records why a collective fails; what it carried is not needed any more.
func (g *gathering) fail(trouble string) {
	if trouble == "" {
		return
	}
	if g.trouble == "" {
		g.trouble = trouble[:min(len(trouble), 1000)]
	}
	g.leaving, g.kept, g.size = nil, nil, 0
}

// covers reports whether a rank is of this subtree, which must be final.
func (c *Core) covers(rank uint32) bool {
	return c.cfg.Root || c.ranks.has(rank) || c.owner(rank) != nil
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
	for i := range c.ranks.locals {
		if r := &c.ranks.locals[i]; r.op < op {
			if !r.ended || r.mayReturn() {
				return
			}
			g.fail(c.named(c.ranks.first+uint32(i), 1) + " ended before it joined")
		}
	}
	for i := range c.kids {
		if k := &c.kids[i]; k.op < op {
			if k.state != kidGone {
				return
			}
			for _, p := range k.part {
				g.fail(c.named(p.Nodes.Base(), p.Nodes.Ranks()) + " ended before all had joined")
			}
		}
	}
	g.sent = true
	if g.what == wire.Barrier && c.cfg.Join != nil {
		g.leaving = c.cfg.Join(g.leaving)
	}
	if c.cfg.Root {
		c.release(wire.Release{Op: op, What: g.what, Root: g.root, Trouble: g.trouble, Parcels: g.leaving})
		return
	}
	c.send(Up, wire.Collect{Op: op, What: g.what, Root: g.root, Trouble: g.trouble, Parcels: g.leaving})
	g.leaving = nil
	c.countBarrier(g.what)
}

// countBarrier counts what a barrier sends over the edge to the parent.
func (c *Core) countBarrier(what wire.Collective) {
	if what == wire.Barrier && !c.cfg.Root {
		c.tally.Sum[job.CountBarriers]++
	}
}

// release hands the outcome of a collective to the ranks and subtrees below.
func (c *Core) release(m wire.Release) {
	g := c.gathers[m.Op]
	if g == nil || !g.sent {
		return
	}
	delete(c.gathers, m.Op)
	c.countBarrier(m.What)
	parcels := append(m.Parcels, g.kept...)
	if m.Trouble != "" {
		parcels = nil
	}
	slices.SortStableFunc(parcels, func(a, b wire.Parcel) int { return int(int64(a.To) - int64(b.To)) })
	everyone := parcels[firstTo(parcels, wire.Everyone):]
	to := func(of ...owner) wire.Release {
		part := m
		part.Parcels = nil
		for _, o := range of {
			part.Parcels = append(part.Parcels, parcels[firstTo(parcels, o.first):firstTo(parcels, o.first+o.count)]...)
		}
		part.Parcels = append(part.Parcels, everyone...)
		if size(part.Parcels) > wire.MaxGather {
			part.Parcels, part.Trouble = nil, tooMuch(m.What)
		}
		return part
	}
	for i := range c.kids {
		k := &c.kids[i]
		c.send(Link(i), to(k.owners(Link(i))...))
	}
	for i := range c.ranks.locals {
		if rank := c.ranks.first + uint32(i); !c.local(rank).ended {
			c.do(Tell{rank, to(owner{first: rank, count: 1})})
		}
	}
}

// firstTo is the first parcel for rank or one after it, in parcels sorted by To.
func firstTo(parcels []wire.Parcel, rank uint32) int {
	i, _ := slices.BinarySearchFunc(parcels, rank, func(p wire.Parcel, r uint32) int { return int(int64(p.To) - int64(r)) })
	return i
}

func size(parcels []wire.Parcel) (n int) {
	for _, p := range parcels {
		n += len(p.Value) + wire.ParcelHead
	}
	return n
}

// exitStatus is the status of a program that ended with a code.
func exitStatus(code uint8) job.Status { return job.Status{Kind: job.Exited, Code: code} }
