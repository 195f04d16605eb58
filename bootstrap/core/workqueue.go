package core

import (
	"slices"
	"time"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// workQueue is the nodes of this agent that nobody has begun, in a tree that is
// bound late: a session is for one node, and what its agent is to start is cut
// from the work queue when it is up. docs/dev/decisions/0013-late-binding.md.
//
//	queue --window--> session --ChildUp--> agent
//	queue --ChildUp of another--> that agent's work queue --Steal--> back
//	session --ChildFailed--> the parent's session --ChildFailed--> dead: the root's
type workQueue struct {
	nodes    job.Parts
	cost     tree.Cost // of sessions from here: as planned, until one has come up
	came     int
	sessions int  // of those, over a remote shell
	failed   int  // that were the first try of their node
	alone    bool // nodes cannot reach each other: nothing is shared
}

// tried is what was done before for a node.
type tried struct {
	by, phase, cause string // host that could not start it, and why; empty: nobody has tried
	spare            bool   // it replaces a dead node
}

// secondTry is the part of a session's time that a second one may take, when the
// first has failed: others of its kind have come up meanwhile.
const secondTry = 3

func (t tried) most(timeout time.Duration) time.Duration {
	if t.by == "" {
		return 0
	}
	return timeout / secondTry
}

// last reports whether a node is dead when this session to it fails too.
func (t tried) last(c *Core) bool { return c.cfg.Root || t.by != "" }

// due is when a child with a share should have been ready.
type due struct {
	at    time.Duration // when nodes are stolen from it; 0: never
	every time.Duration // as expected
	wait  time.Duration // until it is asked again
}

// open takes the nodes below this agent. The node that is this machine needs no
// session, and so is first.
func (s *workQueue) open(c *Core, below job.Parts) {
	s.nodes = below
	for _, p := range below {
		if at := c.here(p); at >= 0 {
			one := p.Slice(at, at+1)
			s.nodes = s.nodes.Without(one.First, one.End())
			c.addBranch(one, tried{}, child.Waiting)
		}
	}
}

// take makes a child of the next node, if there is one.
func (s *workQueue) take(c *Core) bool {
	one, rest := s.nodes.Cut(1)
	if len(one) == 0 {
		return false
	}
	s.nodes = rest
	c.addBranch(one[0], tried{}, child.Waiting)
	return true
}

// came learns from a session that came up.
func (c *Core) came(k *branch, spent time.Duration) {
	s := &c.queue
	s.came++
	if t := k.tried; t.by != "" {
		c.fault(wire.Fault{What: wire.FaultFallback, Node: k.head.First, Nodes: 1, Host: k.host(), Parent: t.by, Phase: t.phase, Cause: t.cause})
	}
	if k.local {
		return
	}
	took := max(c.now-k.started, time.Microsecond)
	c.paced(took, spent)
	switch s.sessions++; s.sessions {
	case 1:
		s.cost.REM = took
	default: // one that is slow moves it by an eighth at most
		s.cost.REM += (min(took, 2*s.cost.REM) - s.cost.REM) / 8
	}
}

// slow is how many times the usual a session takes whose agent gets no share.
const slow = 3

// share is what a child that has come up is to start. The slot that its session
// has left takes one node by itself.
func (s *workQueue) share(c *Core, k *branch) job.Parts {
	n := s.nodes.Len() - 1
	if n <= 0 || s.alone || c.now-k.started > slow*s.cost.REM {
		return nil
	}
	cost := s.cost.Windowed(c.starts.window)
	var waits []time.Duration
	for i := range c.children {
		if o := &c.children[i]; o.In(child.Opening) && c.now-o.started < slow*cost.REM {
			waits = append(waits, max(cost.REM-(c.now-o.started), 0))
		}
	}
	own := time.Duration(0) // until there is a slot for one node more
	if c.starts.inFlight+1 >= c.starts.window && len(waits) > 0 {
		own = slices.Min(waits)
	}
	part, rest := s.nodes.Cut(cost.Share(n, own, waits))
	if len(part) == 0 {
		return nil
	}
	if most := min(len(part), wire.MaxParts); most < len(part) {
		part, rest = part[:most], part[most:].Add(rest...)
	}
	s.nodes = rest
	k.part = k.part.Add(part...)
	k.due.every = cost.Optimum(part.Len()+1)*3/2 + cost.REM
	k.due.wait, k.due.at = k.due.every, c.now+k.due.every
	c.wakeAt(k.due.at)
	return part
}

// askBack asks children that are late for nodes, when there is a slot for them.
func (s *workQueue) askBack(c *Core) {
	if c.stage != launching {
		return
	}
	busy := s.nodes.Len() > 0 || c.starts.inFlight >= c.starts.window
	for i := range c.children {
		k := &c.children[i]
		switch {
		case !k.In(child.Launching) || k.due.at == 0:
		case k.due.at > c.now:
			c.wakeAt(k.due.at)
		case busy:
			c.wakeAt(c.now + s.cost.REM)
		default:
			k.due.at, k.due.wait = c.now+k.due.wait, 2*k.due.wait
			c.wakeAt(k.due.at)
			c.send(Link(i), wire.Steal{})
		}
	}
}

// returnHalf returns half of the work queue: the half that is begun last.
func (s *workQueue) returnHalf(c *Core) {
	keep, give := s.nodes.Cut(s.nodes.Len() / 2)
	if c.stage != launching {
		return
	}
	s.nodes = keep
	for _, p := range give {
		c.send(Up, wire.Return{Part: p})
	}
}

// returnUp returns the nodes of a child whose session failed. An agent that
// could reach nobody returns all that it has.
func (c *Core) returnUp(part job.Part, why ChildFailed) {
	s := &c.queue
	s.failed++
	barren := s.came == 0 && s.failed > 1
	c.send(Up, wire.Return{Part: part, Barren: barren, Phase: why.Phase, Cause: why.Cause})
	if !barren {
		return
	}
	rest := s.nodes
	s.nodes = nil
	for ; c.starts.next < len(c.children); c.starts.next++ {
		rest = append(rest, c.children[c.starts.next].planned)
		c.happen(Link(c.starts.next), child.GiveBack, nil)
	}
	for _, p := range rest {
		c.send(Up, wire.Return{Part: p, Barren: true})
	}
}

// returned takes nodes that a child has returned.
func (c *Core) returned(from Link, m wire.Return) {
	k := &c.children[from]
	mine := k.part.Within(m.Part.First, m.Part.End())
	part := mine[0] // under the names that it was given with
	k.part = k.part.Without(part.First, part.End())
	if k.due.at > 0 {
		k.due.wait, k.due.at = k.due.every, c.now+k.due.every
	}
	if c.stage != launching {
		c.ended(mine, job.Status{Kind: job.NotRun})
		return
	}
	s := &c.queue
	s.alone = s.alone || m.Barren
	t := tried{}
	if m.Cause != "" {
		t = tried{by: k.host(), phase: m.Phase, cause: m.Cause}
	}
	switch {
	case c.job.Launch.LateBinding && m.Cause == "":
		s.nodes = s.nodes.Add(part)
	case s.alone:
		for i := range part.Nodes.Len() {
			c.addBranch(part.Slice(i, i+1), t, child.Waiting)
			t = tried{}
		}
	default:
		c.addBranch(part, t, child.Waiting)
	}
}

// forget takes nodes from a child that are dead: they are the root's.
func (k *branch) forget(f wire.Fault) {
	end := f.Node + job.NodeIndex(f.Nodes)
	k.dead = k.dead.Add(k.part.Within(f.Node, end)...)
	k.part = k.part.Without(f.Node, end)
}
