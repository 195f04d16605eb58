package core

import (
	"time"

	"ibrun/bootstrap/frame"
	"ibrun/bootstrap/rankwire"
	"ibrun/bootstrap/wire"
	"ibrun/job"
)

// table is eager resolution: the blocks of all nodes rise once, each subtree's
// when it is complete, and the whole table comes down.
type table struct {
	blocks   frame.Values // of the subtrees that have reported
	reported int          // children that have reported or are gone
	sent     bool
	here     bool
	early    []requester // questions that wait for the table
	giveUp   time.Duration
}

// tablePatience is how long a question waits for the table. A node whose ranks
// do not speak to ibrun would hold it up for ever; then the tree is asked.
const tablePatience = 2 * time.Second

// waits parks a question until the table is here, in eager mode.
func (t *table) waits(c *Core, a requester) bool {
	if !c.job.Transport.Eager || t.here || a.ask.Fresh || a.ask.Key != "" {
		return false
	}
	if t.giveUp == 0 {
		t.giveUp = c.now + tablePatience
		c.wakeAt(t.giveUp)
	}
	if c.now >= t.giveUp {
		return false
	}
	t.early = append(t.early, a)
	return true
}

// publish sends this subtree's blocks up when they are complete.
func (t *table) publish(c *Core) {
	if c.job == nil || !c.job.Transport.Eager || t.sent || !c.below.Launched || t.reported < len(c.children) || !c.complete() {
		return
	}
	t.sent = true
	if c.cfg.Root {
		t.arrive(c, wire.Blocks{Values: carried(t.blocks)})
		return
	}
	if c.below.Own.Count() > 0 { // else they were never started
		t.blocks.Add(frame.NewValues(c.ownBlock()))
	}
	t.send(c, Up, wire.Blocks{Values: carried(t.blocks)})
}

// carried is blocks, or none if they are too many for a frame: they are asked for
// one by one then.
func carried(blocks frame.Values) frame.Values {
	if blocks.Size() > rankwire.MaxGather {
		return frame.Values{}
	}
	return blocks
}

// send puts addresses on a link, and counts them.
func (t *table) send(c *Core, to Link, m wire.Blocks) {
	for v := range m.Values.All() {
		c.tally.Sum[job.CountAddressBytes] += uint64(len(v))
	}
	c.send(to, m)
}

// childBlocks takes the blocks of a child's subtree.
func (t *table) childBlocks(c *Core, l Link, m wire.Blocks) {
	c.children[l].tabled = true
	t.blocks.Add(m.Values)
	t.reported++
	t.publish(c)
}

// arrive takes the whole table and passes it on.
func (t *table) arrive(c *Core, m wire.Blocks) {
	t.here, t.blocks = true, frame.Values{}
	for i := range c.children {
		t.send(c, Link(i), m)
	}
	c.resolve.blocks.open(m.Values, c.job.Layout.Nodes())
	t.flush(c)
}

// flush looks up what waited for the table.
func (t *table) flush(c *Core) {
	early := t.early
	t.early = nil
	for _, a := range early {
		c.lookUp(a)
	}
}

// due asks the tree when the table has not come in time.
func (t *table) due(c *Core) {
	if t.giveUp > 0 && c.now >= t.giveUp && len(t.early) > 0 {
		t.flush(c)
	}
}
