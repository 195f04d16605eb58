package collective

import (
	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire/rankwire"
)

// Release takes the outcome of a collective from the parent.
func (c *Collectives) Release(m rankwire.Release) []Effect {
	c.release(m)
	return c.done()
}

// release hands the outcome to the ranks and subtrees below, which get the parcels that are theirs.
func (c *Collectives) release(m rankwire.Release) {
	g := c.open[m.Op]
	if g == nil {
		return
	}
	delete(c.open, m.Op)
	if c.released = max(c.released, m.Op); m.Trouble == "" {
		c.Passed = max(c.Passed, m.Op)
	}
	c.countBarrier(m.What)
	parcels := m.Parcels.Join(g.kept)
	if m.Trouble != "" {
		parcels = rankwire.Parcels{}
	}
	c.keep(m, parcels)
	// A class for each child, one for each rank here, and the last for everyone.
	own, children := &c.below.Own, c.below.Children()
	everyone := children + int(own.Count())
	parts := parcels.Split(everyone+1, func(p rankwire.Parcel) int {
		switch l, below := c.below.Child(p.To); {
		case p.To == rankwire.Everyone:
			return everyone
		case own.Has(p.To):
			return children + own.Index(p.To)
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
	for i := range children {
		l := subtree.Link(i)
		if *c.child(l) < m.Op {
			continue // it failed without this child, which would take the outcome for a lie
		}
		c.do(Effect{Do: ReleaseChild, To: l, Part: to(i)})
	}
	for rank, p := range own.All() {
		if !p.Ended() && !(own.Left() && *c.rank(rank) < m.Op) {
			c.do(Effect{Do: ReleaseRank, Rank: rank, Part: to(children + own.Index(rank))})
		}
	}
}
