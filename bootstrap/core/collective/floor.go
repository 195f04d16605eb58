package collective

import (
	"maps"
	"slices"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// A rank that is restarted has joined nothing. So what its old start had not joined fails for all,
// and all ranks, the new start too, count on from one number: the floor. It lies so far above all
// numbers that the root knows that no rank has joined a greater one anywhere.

// floorStride is how far the numbers of collectives that a rank has under way may be ahead of what
// the root has heard. Each of them is a call whose context has ended.
const floorStride = 1 << 16

// restarted is why collectives fail.
const restarted = "a rank was restarted"

// NextFloor is the number up to which collectives fail if a rank is restarted now; for the root.
func (c *Collectives) NextFloor() uint32 { return max(c.newest, c.floor) + floorStride }

// FloorOp is the number up to which collectives have failed.
func (c *Collectives) FloorOp() uint32 { return c.floor }

// Floor lets collectives up to a number fail, those of ranks that have joined and of those that
// will join too late.
func (c *Collectives) Floor(op uint32) []Effect {
	for _, n := range slices.Sorted(maps.Keys(c.open)) {
		g := c.open[n]
		if n > op {
			continue
		}
		for rank := range c.below.Own.All() {
			if *c.rank(rank) >= n {
				c.refuse(rank, n, g.what, g.root)
			}
		}
		delete(c.open, n)
	}
	c.floor = max(c.floor, op)
	return c.done()
}

// refuse tells a rank of this node that a collective has failed.
func (c *Collectives) refuse(rank job.Slot, op uint32, what rankwire.Collective, root job.Rank) {
	if p := c.below.Own.Of(rank); p.Joined() && !p.Ended() {
		m := rankwire.Release{Op: op, What: what, Root: root, Trouble: restarted}
		c.do(Effect{Do: ReleaseRank, Rank: rank, Part: m})
	}
}
