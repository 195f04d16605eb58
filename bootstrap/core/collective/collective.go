// Package collective decides for one agent when a collective is complete below it, what goes up,
// and what is for whom on the way down: one message up and one down on each edge. Ranks call
// collectives in the same order, so a number names each.
//
//	joining --all ranks and children have joined--> complete, sent up --Release--> done
//	                                                at the root: released at once
//
// A collective in which ranks contradict each other, or that a rank cannot join any more, fails for
// all, with the reason. The package does not look into parcels.
package collective

import (
	"cmp"
	"fmt"
	"slices"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Do is what an effect asks for.
type Do uint8

const (
	Collect      Do = iota // put Part on the link to the parent, as a Collect
	ReleaseChild           // put Part on the link To
	ReleaseRank            // hand Part to Rank, which is of this node
	Decide                 // at the root: all have called Resize; Part is for Release, after the decision
)

// Effect is something that the core must do.
type Effect struct {
	Do   Do
	To   subtree.Link
	Rank job.Slot
	Part rankwire.Release
}

// Collectives are those that an agent takes part in.
type Collectives struct {
	Passed   uint32 // number of the newest collective that has succeeded here
	Barriers uint64 // frames of barriers on the edge to the parent, both ways
	newest   uint32 // number of the newest that somebody has joined here
	released uint32 // and of the newest that was released here, though it may have failed
	floor    uint32 // numbers up to this one have failed with a rank that was restarted

	below    *subtree.Subtree
	join     func(rankwire.Parcels) rankwire.Parcels
	ranks    []uint32 // collectives that each rank of this node has joined
	children []uint32 // and each child's subtree
	open     map[uint32]*gathering
	out      []Effect

	Noun   string // for what takes part, in texts; empty: rank
	Keeps  bool   // what was sent, so that it can be sent again (repair.go)
	recent []rankwire.Release
}

// gathering is one collective that is not released yet.
type gathering struct {
	what    rankwire.Collective
	root    job.Rank
	trouble string
	leaving rankwire.Parcels // for ranks outside this subtree, or for everyone
	kept    rankwire.Parcels // for ranks of this subtree
	sent    bool
	part    rankwire.Release // what was sent, if that is kept
}

// New makes the collectives of an agent with a subtree. Join makes one of what the parts of a
// Barrier carry, before it goes on; nil: parcels go on as they came.
func New(below *subtree.Subtree, join func(rankwire.Parcels) rankwire.Parcels) Collectives {
	return Collectives{below: below, join: join}
}

// at is an element of a list that has one for each rank or child.
func at(list *[]uint32, i int) *uint32 {
	for i >= len(*list) {
		*list = append(*list, 0)
	}
	return &(*list)[i]
}

// rank is how many collectives a rank of this node has joined.
func (c *Collectives) rank(rank job.Slot) *uint32 {
	return c.counted(at(&c.ranks, c.below.Own.Index(rank)))
}

func (c *Collectives) child(l subtree.Link) *uint32 { return c.counted(at(&c.children, int(l))) }

// counted brings a count of collectives up to the floor.
func (c *Collectives) counted(n *uint32) *uint32 {
	*n = max(*n, c.floor)
	return n
}

// Joined is how many collectives a rank of this node has joined, in all its programs.
func (c *Collectives) Joined(rank job.Slot) uint32 { return *c.rank(rank) }

// Next is the number of the collective that a child's subtree joins next.
func (c *Collectives) Next(l subtree.Link) uint32 { return *c.child(l) + 1 }

func (c *Collectives) do(e Effect) { c.out = append(c.out, e) }

// done returns what was done since the last event.
func (c *Collectives) done() []Effect {
	out := c.out
	c.out = c.out[:0]
	return out
}

// Join takes the part of a rank of this node.
func (c *Collectives) Join(rank job.Slot, m rankwire.Collect) []Effect {
	if m.Op <= c.floor {
		c.refuse(rank, m.Op, m.What, m.Root)
		return c.done()
	}
	op := c.rank(rank)
	*op++
	switch {
	case m.Op != *op:
		m.Trouble = c.named(rank, 1) + " counts its collectives wrongly"
	case !c.own(rank, m.Parcels):
		m.Trouble = c.named(rank, 1) + " sends what is another's, or for no rank"
	}
	m.Op = *op
	c.gather(m, func() string { return c.named(rank, 1) })
	c.check(m.Op)
	return c.done()
}

// own reports whether parcels are a rank's own, and for ranks that there are.
func (c *Collectives) own(rank job.Slot, parcels rankwire.Parcels) bool {
	for p := range parcels.All() {
		if p.From != rank || !c.exists(p.To) {
			return false
		}
	}
	return true
}

func (c *Collectives) exists(to job.Slot) bool {
	return to == rankwire.Everyone || uint32(to) < c.below.Layout.Ranks()
}

// JoinBelow takes the part of a child's subtree, whose first rank is head.
func (c *Collectives) JoinBelow(l subtree.Link, head job.Slot, m rankwire.Collect) []Effect {
	if m.Op <= c.floor {
		return nil // the floor was not there yet
	}
	*c.child(l) = m.Op
	c.gather(m, func() string { return c.named(head, 1) + " or one after it" })
	c.check(m.Op)
	return c.done()
}

// Lie says what of a child's part cannot be; empty: nothing.
func (c *Collectives) Lie(l subtree.Link, m rankwire.Collect) string {
	if m.Op <= c.floor {
		return ""
	}
	if m.Op != c.Next(l) || m.Op <= c.released {
		return "out of order"
	}
	for p := range m.Parcels.All() {
		if from, below := c.below.Child(p.From); !below || from != l {
			return "from another's rank"
		}
		if !c.exists(p.To) {
			return "for no rank"
		}
	}
	return ""
}

// Awaits reports whether the parent may release a collective: this subtree has joined it, or is not
// waited for.
func (c *Collectives) Awaits(op uint32) bool {
	g := c.open[op]
	return g != nil && g.sent || !c.MayJoin()
}

// Over is the number up to which collectives are over here: released, or failed with a floor.
func (c *Collectives) Over() uint32 { return max(c.released, c.floor) }

// MayJoin reports whether somebody of this subtree may join a collective. If nobody may, others go
// on without it, and it does not know which collectives they have passed.
func (c *Collectives) MayJoin() bool {
	for _, p := range c.below.Own.All() {
		if !c.below.Own.Left() && (!p.Ended() || p.MayReturn()) {
			return true
		}
	}
	for l := range subtree.Link(c.below.Children()) {
		if !c.below.Ended(l) && !c.below.Resting(l) {
			return true
		}
	}
	return false
}

// named is the ranks of the slots [first, first+count), for the user.
func (c *Collectives) named(first job.Slot, count uint32) string {
	l, noun := c.below.Layout, cmp.Or(c.Noun, "rank")
	switch {
	case count == 1:
		return fmt.Sprintf("%s %d", noun, l.Rank(first))
	case l.Plane() == 0:
		return fmt.Sprintf("%ss %d to %d", noun, first, first+job.Slot(count)-1)
	}
	return fmt.Sprintf("%s %d and %d more", noun, l.Rank(first), count-1)
}

// gather adds a part to its collective.
func (c *Collectives) gather(m rankwire.Collect, from func() string) {
	if c.open == nil {
		c.open = map[uint32]*gathering{}
	}
	c.newest = max(c.newest, m.Op)
	g := c.open[m.Op]
	if g == nil {
		g = &gathering{what: m.What, root: m.Root}
		c.open[m.Op] = g
	}
	g.fail(m.Trouble)
	if m.What != g.what || m.Root != g.root {
		g.fail(fmt.Sprintf("%s called %v of root %d, others %v of root %d", from(), m.What, m.Root, g.what, g.root))
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
	return fmt.Sprintf("%v of more than %d MB: too much for the launch tree; send such values from rank to rank",
		what, rankwire.MaxGather>>20)
}

// maxTrouble bounds what a collective says of its failure, in bytes.
const maxTrouble = 1000

// fail records why a collective fails; what it carried is not needed any more.
func (g *gathering) fail(trouble string) {
	if trouble == "" {
		return
	}
	if g.trouble == "" {
		g.trouble = trouble[:min(len(trouble), maxTrouble)]
	}
	g.leaving, g.kept = rankwire.Parcels{}, rankwire.Parcels{}
}

// Check looks at every open collective: a rank or a child has ended.
func (c *Collectives) Check() []Effect {
	ops := make([]uint32, 0, len(c.open))
	for op := range c.open {
		ops = append(ops, op)
	}
	slices.Sort(ops)
	for _, op := range ops {
		c.check(op)
	}
	return c.done()
}

// check sends a collective on when all of this subtree have joined or can join no more.
func (c *Collectives) check(op uint32) {
	g := c.open[op]
	if g == nil || g.sent {
		return
	}
	for rank, p := range c.below.Own.All() {
		if *c.rank(rank) < op && !c.below.Own.Left() {
			if !p.Ended() || p.MayReturn() {
				return
			}
			g.fail(c.named(rank, 1) + " ended before it joined")
			*c.rank(rank) = op // the next program of the rank joins the one after it
		}
	}
	for l := range subtree.Link(c.below.Children()) {
		if *c.child(l) < op {
			if !c.below.Ended(l) && !c.below.Resting(l) {
				return
			}
			for _, p := range c.below.Parts(l) {
				g.fail(c.named(p.Nodes.Base(), p.Nodes.Ranks()) + " ended before all had joined")
			}
		}
	}
	g.sent = true
	if g.what == rankwire.Barrier && c.join != nil {
		g.leaving = c.join(g.leaving)
	}
	part := rankwire.Release{Op: op, What: g.what, Root: g.root, Trouble: g.trouble, Parcels: g.leaving}
	if c.below.Root && g.what == rankwire.Resizing && g.trouble == "" {
		c.do(Effect{Do: Decide, Part: part})
		return
	}
	if c.below.Root {
		c.release(part)
		return
	}
	if c.Keeps {
		g.part = part
	}
	c.do(Effect{Do: Collect, To: subtree.Up, Part: part})
	g.leaving = rankwire.Parcels{}
	c.countBarrier(g.what)
}

// countBarrier counts what a barrier sends over the edge to the parent.
func (c *Collectives) countBarrier(what rankwire.Collective) {
	if what == rankwire.Barrier && !c.below.Root {
		c.Barriers++
	}
}
