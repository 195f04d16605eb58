package core

import (
	"ibrun/bootstrap/frame"
	"ibrun/bootstrap/rankwire"
	"ibrun/bootstrap/wire"
	"ibrun/job"
)

// A bulk fetch brings what all nodes have to those that ask for it. What that is, this
// package does not know: the driver asks, gives and takes. A fence numbers
// it; all nodes have passed that fence when the first of them asks.
//
//	request of this node or a child --> there already: served
//	                             --> passed up, once; at the root: called for
//	call, from the root down --> this node gives; all children have given or are gone --> one BulkValues up
//	BulkValues, from the root down --> kept for later requests; to this node and the children that asked
//
// A child that is gone gives nothing, and neither does a subtree whose values
// are too much for the tree: who misses a value asks for it alone.
type bulk struct {
	requested uint32 // the newest fence whose request was passed up
	here      uint32 // this node's own request; 0: none is open
	round     uint32 // the newest call
	answered  bool   // this node has answered it
	sent      bool   // the subtree has
	parts     frame.Values
	ready     wire.BulkValues // the newest that came down
}

// bulkFetch takes the request of a child, or of this node for Up.
func (c *Core) bulkFetch(from Link, fence uint32) {
	if c.job == nil {
		return
	}
	p := &c.bulk
	if from == Up {
		p.here = max(p.here, fence)
	} else {
		c.children[from].fetch = max(c.children[from].fetch, fence)
	}
	switch {
	case fence <= p.ready.Fence:
		c.serveBulk()
	case fence <= p.requested:
	case c.cfg.Root:
		p.requested = fence
		c.tally.Sum[job.CountBulkFetches]++
		c.call(fence)
	default:
		p.requested = fence
		c.send(Up, wire.BulkFetch{Fence: fence})
	}
}

// call asks the subtree for what it has to give. A newer call takes the place
// of an older one.
func (c *Core) call(fence uint32) {
	p := &c.bulk
	if c.job == nil || fence <= p.round {
		return
	}
	p.round, p.answered, p.sent, p.parts = fence, c.cfg.Root, false, frame.Values{}
	for i := range c.children {
		c.send(Link(i), wire.BulkFetch{Fence: fence})
	}
	if !c.cfg.Root {
		c.do(ReadBulk{fence})
	}
	c.checkBulk()
}

// bulkRead takes what this node has.
func (c *Core) bulkRead(ev BulkRead) {
	p := &c.bulk
	if ev.Fence != p.round || p.answered {
		return
	}
	p.answered = true
	if len(ev.Value) > 0 {
		p.parts.Add(frame.NewValues(ev.Value))
	}
	c.checkBulk()
}

// childBulkValues takes what a child's subtree has.
func (c *Core) childBulkValues(l Link, m wire.BulkValues) {
	k := &c.children[l]
	if k.bulkFence = m.Fence; m.Fence < c.bulk.round {
		return // a newer call took its place meanwhile
	}
	c.bulk.parts.Add(m.Values)
	c.checkBulk()
}

// checkBulk sends the values on when all of this subtree have given or never will.
func (c *Core) checkBulk() {
	p := &c.bulk
	if p.sent || !p.answered {
		return
	}
	for i := range c.children {
		if k := &c.children[i]; k.live && k.bulkFence < p.round {
			return
		}
	}
	m := wire.BulkValues{Fence: p.round, Values: p.parts}
	if m.Values.Size() > rankwire.MaxGather {
		m.Values = frame.Values{}
	}
	p.sent, p.parts = true, frame.Values{}
	if c.cfg.Root {
		c.bulkValues(m)
		return
	}
	c.send(Up, m)
}

// bulkValues takes the values of all nodes.
func (c *Core) bulkValues(m wire.BulkValues) {
	c.bulk.ready = m
	c.serveBulk()
}

// serveBulk hands the values to those that asked for them.
func (c *Core) serveBulk() {
	p := &c.bulk
	for i := range c.children {
		if k := &c.children[i]; k.fetch > 0 && k.fetch <= p.ready.Fence {
			k.fetch = 0
			c.send(Link(i), p.ready)
		}
	}
	if p.here > 0 && p.here <= p.ready.Fence {
		p.here = 0
		c.do(BulkFetched{p.ready.Fence, p.ready.Values})
	}
}
