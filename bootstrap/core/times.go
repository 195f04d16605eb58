package core

import (
	"time"

	"ibrun/bootstrap/wire"
	"ibrun/job"
)

// times is what an agent records of its launch, from when it got its Launch.
// The root records its own sessions in any case, since that costs no message;
// all others only if the job is timed.
type times struct {
	on    bool
	began time.Duration
	own   job.NodeTimes
}

// kidTimes is what is known of the launch of a child and of those below it.
type kidTimes struct {
	head    job.NodeTimes
	below   []job.NodeTimes
	missing uint32
}

func (c *Core) openTimes(first uint32) {
	t := &c.times
	t.on, t.began = c.cfg.Root || c.job.Launch.Timed, c.now
	if t.on && !c.cfg.Root {
		t.own = job.NewNodeTimes(first)
		t.own.Mark(job.Got, 0)
	}
}

// markOwn notes a moment of this node.
func (c *Core) markOwn(m job.Moment) {
	if c.times.on && !c.cfg.Root {
		c.times.own.Mark(m, c.now-c.times.began)
	}
}

// markKid notes a moment of a child's session.
func (c *Core) markKid(k *kid, m job.Moment) {
	if !c.times.on {
		return
	}
	if k.times == nil {
		k.times = &kidTimes{head: job.NewNodeTimes(k.head.First)}
		k.times.head.Local = k.local
		if !c.cfg.Root {
			k.times.head.Parent = c.ranks.index + 1
		}
	}
	k.times.head.Mark(m, c.now-c.times.began)
}

// kidTimed takes in how a child's launch went. The child has counted from when
// it got its Launch. That was between when we sent it and when its Times came
// here, less the time that the child says to have passed in between: the middle
// of what is left is taken, and half of it is the error.
func (c *Core) kidTimed(l Link, m wire.Times) {
	t := c.kids[l].times
	if t == nil || t.below != nil || c.kids[l].state != kidUp {
		return
	}
	sent := t.head.At[job.Launched]
	off := max(0, c.now-c.times.began-sent-m.Span) / 2
	for i := range m.Nodes {
		m.Nodes[i].Shift(sent+off, off)
	}
	for _, of := range []job.Moment{job.Got, job.Spawning, job.RanksUp, job.Settled} {
		t.head.At[of] = m.Nodes[0].At[of]
	}
	t.head.Error = m.Nodes[0].Error
	t.below, t.missing = m.Nodes[1:], m.Missing
}

// allTimes is what this agent knows of its subtree, parents before their children.
func (c *Core) allTimes() (nodes []job.NodeTimes, missing uint32) {
	if !c.cfg.Root {
		nodes = append(nodes, c.times.own)
	}
	for i := range c.kids {
		t := c.kids[i].times
		if t == nil {
			continue
		}
		nodes = append(append(nodes, t.head), t.below...)
		missing += t.missing
	}
	if over := len(nodes) - wire.MaxTimes; over > 0 {
		nodes, missing = nodes[:wire.MaxTimes], missing+uint32(over)
	}
	return nodes, missing
}

// sendTimes goes right before Ready.
func (c *Core) sendTimes() {
	if !c.times.on {
		return
	}
	c.markOwn(job.Settled)
	nodes, missing := c.allTimes()
	c.send(Up, wire.Times{Span: c.now - c.times.began, Missing: missing, Nodes: nodes})
}
