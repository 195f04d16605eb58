package core

import (
	"iter"
	"time"

	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// times is what an agent records of its launch, from when it got its Launch.
// The root records its own sessions in any case, since that costs no message;
// all others only if the job is timed.
type times struct {
	on    bool
	began time.Duration
	own   job.NodeTimes
}

// childTimes is what is known of the launch of a child and of those below it.
type childTimes struct {
	head    job.NodeTimes
	below   wire.Timings  // as the child has sent them, itself first; nothing: not yet
	by, err time.Duration // what they are to be moved by, and how far off they are besides
	missing uint32
}

func (c *Core) openTimes(first job.NodeIndex) {
	t := &c.times
	t.on, t.began = c.cfg.Root || c.job.Launch.Timed, c.now
	if t.on && !c.cfg.Root {
		t.own = job.NewNodeTimes(first)
		t.own.Mark(job.LaunchReceived, 0)
	}
}

// markOwn notes a moment of this node.
func (c *Core) markOwn(m job.Moment) {
	if c.times.on && !c.cfg.Root {
		c.times.own.Mark(m, c.now-c.times.began)
	}
}

// markChild notes a moment of a child's session.
func (c *Core) markChild(k *branch, m job.Moment) {
	if !c.times.on {
		return
	}
	if k.times == nil {
		k.times = &childTimes{head: job.NewNodeTimes(k.head.First)}
		k.times.head.Local = k.local
		if !c.cfg.Root {
			k.times.head.Parent = c.ranks.index + 1
		}
	}
	k.times.head.Mark(m, c.now-c.times.began)
}

// childTimed takes in how a child's launch went. The child has counted from when
// it got its Launch. That was between when we sent it and when its Times came
// here, less the time that the child says to have passed in between: the middle
// of what is left is taken, and half of it is the error.
func (c *Core) childTimed(l Link, m wire.Times) {
	t := c.children[l].times
	sent := t.head.At[job.LaunchSent]
	t.err = max(0, c.now-c.times.began-sent-m.Span) / 2
	t.by, t.below, t.missing = sent+t.err, m.Nodes, m.Missing
}

// nodes are the times of a child and those below it.
func (t *childTimes) nodes(yield func(job.NodeTimes) bool) bool {
	head := true
	for n := range t.below.All() {
		n.Shift(t.by, t.err)
		if head {
			for _, of := range []job.Moment{job.LaunchReceived, job.ForkStarted, job.RanksStarted, job.ReadySent} {
				t.head.At[of] = n.At[of]
			}
			t.head.Error, head = n.Error, false
			n = t.head
		}
		if !yield(n) {
			return false
		}
	}
	return !head || yield(t.head)
}

// allTimes is what this agent knows of its subtree, parents before their
// children, and how many nodes there was no room for.
func (c *Core) allTimes() (nodes iter.Seq[job.NodeTimes], missing uint32) {
	total := 0
	if !c.cfg.Root {
		total++
	}
	for i := range c.children {
		if t := c.children[i].times; t != nil {
			total += max(1, t.below.Len())
			missing += t.missing
		}
	}
	most := min(total, wire.MaxTimes)
	return func(yield func(job.NodeTimes) bool) {
		left := most
		some := func(n job.NodeTimes) bool {
			left--
			return left >= 0 && yield(n)
		}
		more := c.cfg.Root || some(c.times.own)
		for i := 0; i < len(c.children) && more; i++ {
			if t := c.children[i].times; t != nil {
				more = t.nodes(some)
			}
		}
	}, missing + uint32(total-most)
}

// sendTimes goes right before Ready.
func (c *Core) sendTimes() {
	if !c.times.on {
		return
	}
	c.markOwn(job.ReadySent)
	nodes, missing := c.allTimes()
	c.send(Up, wire.Times{Span: c.now - c.times.began, Missing: missing, Nodes: wire.TimingsOf(nodes)})
}
