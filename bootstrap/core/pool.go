package core

import (
	"ibrun/bootstrap/wire"
	"ibrun/job"
)

// A pool is what all nodes have to give, for those who wish. What that is, this
// package does not know: the driver wishes, gives and takes. A fence numbers
// it; all nodes have passed that fence when the first of them wishes.
//
//	wish of this node or a child --> there already: served
//	                             --> passed up, once; at the root: called for
//	call, from the root down --> this node gives; all children have given or are gone --> one Pool up
//	Pool, from the root down --> kept for who wishes later; to this node and the children that wished
//
// A child that is gone gives nothing, and neither does a subtree whose values
// are too much for the tree: who misses a value asks for it alone.
type pool struct {
	wished uint32 // the newest fence whose wish was passed up
	here   uint32 // this node's own wish; 0: none is open
	round  uint32 // the newest call
	given  bool   // this node has answered it
	sent   bool   // the subtree has
	parts  wire.Values
	ready  wire.Pool // the newest that came down
}

// wish takes a wish of a child, or of this node for Up.
func (c *Core) wish(from Link, fence uint32) {
	if c.job == nil {
		return
	}
	p := &c.pool
	if from == Up {
		p.here = max(p.here, fence)
	} else {
		c.children[from].wish = max(c.children[from].wish, fence)
	}
	switch {
	case fence <= p.ready.Fence:
		c.servePool()
	case fence <= p.wished:
	case c.cfg.Root:
		p.wished = fence
		c.tally.Sum[job.CountPools]++
		c.call(fence)
	default:
		p.wished = fence
		c.send(Up, wire.Wish{Fence: fence})
	}
}

// call asks the subtree for what it has to give. A newer call takes the place
// of an older one.
func (c *Core) call(fence uint32) {
	p := &c.pool
	if c.job == nil || fence <= p.round {
		return
	}
	p.round, p.given, p.sent, p.parts = fence, c.cfg.Root, false, wire.Values{}
	for i := range c.children {
		c.send(Link(i), wire.Wish{Fence: fence})
	}
	if !c.cfg.Root {
		c.do(Give{fence})
	}
	c.checkPool()
}

// gave takes what this node has.
func (c *Core) gave(ev Given) {
	p := &c.pool
	if ev.Fence != p.round || p.given {
		return
	}
	p.given = true
	if len(ev.Value) > 0 {
		p.parts.Add(wire.NewValues(ev.Value))
	}
	c.checkPool()
}

// childGave takes what a child's subtree has.
func (c *Core) childGave(l Link, m wire.Pool) {
	k := &c.children[l]
	if k.gave = m.Fence; m.Fence < c.pool.round {
		return // a newer call took its place meanwhile
	}
	c.pool.parts.Add(m.Values)
	c.checkPool()
}

// checkPool sends the pool on when all of this subtree have given or never will.
func (c *Core) checkPool() {
	p := &c.pool
	if p.sent || !p.given {
		return
	}
	for i := range c.children {
		if k := &c.children[i]; k.live && k.gave < p.round {
			return
		}
	}
	m := wire.Pool{Fence: p.round, Values: p.parts}
	if m.Values.Size() > wire.MaxGather {
		m.Values = wire.Values{}
	}
	p.sent, p.parts = true, wire.Values{}
	if c.cfg.Root {
		c.pooled(m)
		return
	}
	c.send(Up, m)
}

// pooled takes the whole pool.
func (c *Core) pooled(m wire.Pool) {
	c.pool.ready = m
	c.servePool()
}

// servePool hands the pool to those who wished for it.
func (c *Core) servePool() {
	p := &c.pool
	for i := range c.children {
		if k := &c.children[i]; k.wish > 0 && k.wish <= p.ready.Fence {
			k.wish = 0
			c.send(Link(i), p.ready)
		}
	}
	if p.here > 0 && p.here <= p.ready.Fence {
		p.here = 0
		c.do(Pooled{p.ready.Fence, p.ready.Values})
	}
}
