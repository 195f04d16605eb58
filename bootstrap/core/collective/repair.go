package collective

import (
	"maps"
	"slices"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire/rankwire"
)

// A number names a collective, so that what is repeated on a new link is recognised.

// mostRecent is how many outcomes are kept. A rank joins one collective after the other, so a
// subtree misses one; two, if the calls of its ranks have run out of time.
const mostRecent = 2

// keep keeps an outcome, with all that the subtree's ranks get of it.
func (c *Collectives) keep(m rankwire.Release, parcels rankwire.Parcels) {
	if !c.Keeps || c.below.Children() == 0 {
		return
	}
	m.Parcels = parcels
	if len(c.recent) == mostRecent {
		c.recent = slices.Delete(c.recent, 0, 1)
	}
	c.recent = append(c.recent, m)
}

// Took lets a child stand for another one, which is about to end: what that one has joined, its
// nodes have joined.
func (c *Collectives) Took(child, from subtree.Link) { *c.child(child) = *c.child(from) }

// Repeated reports whether a child's part is in a part that is here already.
func (c *Collectives) Repeated(child subtree.Link, op uint32) bool { return op <= *c.child(child) }

// JoinAgain repeats the parts of collectives that the parent has not released.
func (c *Collectives) JoinAgain() []Effect {
	for _, op := range slices.Sorted(maps.Keys(c.open)) {
		if g := c.open[op]; g.sent && !c.below.Root {
			c.do(Effect{Do: Collect, To: subtree.Up, Part: g.part})
		}
	}
	return c.done()
}

// ReleaseAgain repeats to a child the outcomes of collectives above a number.
func (c *Collectives) ReleaseAgain(child subtree.Link, after uint32) []Effect {
	for _, m := range c.recent {
		if m.Op <= after {
			continue
		}
		parts := m.Parcels.Split(1, func(p rankwire.Parcel) int {
			if l, below := c.below.Child(p.To); p.To == rankwire.Everyone || below && l == child {
				return 0
			}
			return -1
		})
		if m.Parcels = parts[0]; m.Parcels.Size() > rankwire.MaxGather {
			m.Parcels, m.Trouble = rankwire.Parcels{}, tooMuch(m.What)
		}
		c.do(Effect{Do: ReleaseChild, To: child, Part: m})
	}
	return c.done()
}
