package core

import (
	"time"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// Late binding (docs/dev/decisions/0013-late-binding.md): package queue decides which nodes a child gets. A child
// returns the nodes that it cannot start.

// cutHere adds a child for the node that is this machine, if below has it, and returns the other nodes. The child is
// started first, because its session needs no remote shell.
func (c *Core) cutHere(below job.Parts) job.Parts {
	rest := below
	for _, p := range below {
		if at := c.here(p); at >= 0 {
			one := p.Slice(at, at+1)
			rest = rest.Without(one.First, one.End())
			c.addBranch(one, tried{}, child.Waiting)
		}
	}
	return rest
}

// share moves nodes from the work queue to the child k, whose session was opened, and returns these nodes.
func (c *Core) share(k *branch) job.Parts {
	if !c.queue.Shares(c.now - k.started) {
		return nil
	}
	var elapsed []time.Duration
	for i := range c.children {
		if o := &c.children[i]; o.In(child.Opening) {
			elapsed = append(elapsed, c.now-o.started)
		}
	}
	part, expected := c.queue.Share(elapsed, c.starts.inFlight)
	if len(part) > 0 {
		k.part = k.part.Add(part...)
		k.due = due{at: c.now + expected, every: expected, wait: expected}
		c.wakeAt(k.due.at)
	}
	return part
}

// askBack asks children that have not started their nodes in the expected time to return some. It does so only if this
// agent could start them at once: its work queue is empty and another session may be opened.
func (c *Core) askBack() {
	if c.stage != launching {
		return
	}
	busy := c.queue.Nodes.Len() > 0 || c.starts.inFlight >= c.queue.Window
	for i := range c.children {
		k := &c.children[i]
		switch {
		case !k.In(child.Launching) || k.due.at == 0:
		case k.due.at > c.now:
			c.wakeAt(k.due.at)
		case busy:
			c.wakeAt(c.now + c.queue.SessionTime())
		default:
			k.due.at, k.due.wait = c.now+k.due.wait, 2*k.due.wait
			c.wakeAt(k.due.at)
			c.send(Link(i), wire.Steal{})
		}
	}
}

// returnUp returns to the parent the nodes of a child whose session has failed. If at least two sessions have failed
// and none has come up, this agent returns all nodes that it has not started.
func (c *Core) returnUp(part job.Part, why ChildFailed) {
	barren := c.queue.SessionFailed()
	c.send(Up, wire.Return{Part: part, Barren: barren, Phase: why.Phase, Cause: why.Cause})
	if !barren {
		return
	}
	rest := c.queue.GiveAll()
	for ; c.starts.next < len(c.children); c.starts.next++ {
		rest = append(rest, c.children[c.starts.next].planned)
		c.happen(Link(c.starts.next), child.GiveBack, nil)
	}
	for _, p := range rest {
		c.send(Up, wire.Return{Part: p, Barren: true})
	}
}

// returned handles a Return message, with which the child from returns nodes that it has not started.
func (c *Core) returned(from Link, m wire.Return) {
	k := &c.children[from]
	mine := k.part.Within(m.Part.First, m.Part.End())
	part := mine[0] // mine[0] has the hosts that this agent knows, which may differ from those in m
	k.part = k.part.Without(part.First, part.End())
	if k.due.at > 0 {
		k.due.wait, k.due.at = k.due.every, c.now+k.due.every
	}
	if c.stage != launching {
		c.ended(mine, job.Status{Kind: job.NotRun})
		return
	}
	q := &c.queue
	q.Alone = q.Alone || m.Barren
	t := tried{}
	if m.Cause != "" {
		t = tried{by: k.host(), phase: m.Phase, cause: m.Cause}
	}
	switch {
	case c.job.Launch.LateBinding && m.Cause == "":
		q.Nodes = q.Nodes.Add(part)
	case q.Alone:
		for i := range part.Nodes.Len() {
			c.addBranch(part.Slice(i, i+1), t, child.Waiting)
			t = tried{}
		}
	default:
		c.addBranch(part, t, child.Waiting)
	}
}
