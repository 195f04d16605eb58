package core

import (
	"fmt"
	"time"

	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// A node is clean when its agent has reported how its ranks ended. The root sweeps all others,
// each by a session of its own: reaper and agent may have been killed in the same instant.
// docs/dev/decisions/0022-containment.md.
//
//	lost --room in the window--> sweeping --NodeSwept--> looked at
const (
	leastPatience  = 5 * time.Second        // that a session and the sweep behind it may take at least
	silentPatience = 2 * time.Second        // that they may take on a host that has not answered
	sweepSlack     = 500 * time.Millisecond // for the driver to say that the time is up
	sweepWindow    = 16                     // sessions at once
	mostSwept      = 64                     // nodes below lost agents: they end by themselves
)

// nodeSweeps is the root's record of the nodes that it sweeps.
type nodeSweeps struct {
	known   map[job.NodeIndex]bool
	queue   []SweepNode
	running map[job.NodeIndex]bool
	below   bool          // agents below a lost one were lost with it
	silent  bool          // some of them were given up at the end, and nobody knows why
	listed  bool          // and so are they here
	until   time.Duration // the root waits no longer for any
}

// sweepLost sweeps the node of an agent that was lost. An agent that reports a loss of its own
// ends its ranks itself.
func (c *Core) sweepLost(f wire.Fault) {
	switch how := c.job.Launch; {
	case f.Host == f.Parent:
		return
	case how.Contain: // the kernel has killed what was left, and a session would not see it
		return
	case how.StartBarrier && !c.root.out.AllStarted: // no rank has started
		return
	}
	most := c.sweepPatience()
	if f.Cause == hostSilent || f.Cause == hostLost {
		most = silentPatience
	}
	c.root.sweeps.below = c.root.sweeps.below || f.Nodes > 1
	c.sweepNode(f.Node, most)
}

// sweepPatience is how long a sweep may take. Where sessions are slow it has twice their time.
func (c *Core) sweepPatience() time.Duration { return patience(leastPatience, c.queue.SessionTime()) }

// sweepNode sweeps a node once, when there is room.
func (c *Core) sweepNode(index job.NodeIndex, most time.Duration) {
	s := &c.root.sweeps
	if s.known[index] {
		return
	}
	if s.known == nil {
		s.known, s.running = map[job.NodeIndex]bool{}, map[job.NodeIndex]bool{}
	}
	s.known[index] = true
	node, local := c.nodeAt(index)
	s.queue = append(s.queue, SweepNode{
		Node: node, Index: index, Local: local, Grace: min(c.job.Launch.Grace, orphanGrace), Most: most,
	})
	s.until = max(s.until, c.now+most+sweepSlack)
	c.wakeAt(s.until)
	c.startSweeps()
}

// nodeAt is a node by the index that its ranks were told, and whether it is this machine.
func (c *Core) nodeAt(index job.NodeIndex) (n job.Node, local bool) {
	m := &c.root.members
	index = m.original(index)
	n = m.all.Nodes.At(int(index - m.all.First))
	if host, ok := m.replaced[index]; ok {
		if at := c.cfg.Policy.Spares.Index(host); at >= 0 {
			n.User = c.cfg.Policy.Spares.At(at).User
		}
		n.Host = host
		return n, host == c.cfg.Policy.SpareHere
	}
	return n, c.cfg.Here >= 0 && index == job.NodeIndex(c.cfg.Here)
}

func (c *Core) startSweeps() {
	s := &c.root.sweeps
	for ; len(s.queue) > 0 && len(s.running) < sweepWindow; s.queue = s.queue[1:] {
		s.running[s.queue[0].Index] = true
		c.do(s.queue[0])
	}
}

// nodeSwept tells the user what a sweep has found.
func (c *Core) nodeSwept(ev NodeSwept) {
	delete(c.root.sweeps.running, ev.Index)
	if c.fenceSwept(ev) {
		c.startSweeps()
		return
	}
	node, _ := c.nodeAt(ev.Index)
	tell := func(text string) { c.reportToUser(rankwire.Notice{Host: node.Host, Text: text}) }
	switch {
	case ev.Cause != "":
		tell(fmt.Sprintf("nobody could look whether processes of this job are left here: %s; "+
			"hint: ssh %s grep -lzs IBRUN_JOB_ID=%s /proc/*/environ", ev.Cause, node.Host, c.job.ID))
	case ev.Killed > 0:
		tell(fmt.Sprintf("killed what the lost agent of this node had left (processes: %d)", ev.Killed))
	}
	if ev.Left != "" {
		tell(ev.Left)
	}
	c.startSweeps()
}

// nodesSwept reports whether the job may end as far as sweeps are concerned: all are over, or
// their time is, or the user has asked twice. All other nodes have ended.
func (c *Core) nodesSwept() bool {
	s := &c.root.sweeps
	if c.root.asked > 1 {
		return true
	}
	if s.below && !s.listed {
		s.listed = true
		c.sweepBelow()
	}
	late := len(s.running) + len(s.queue)
	if late > 0 && c.now < s.until {
		c.wakeAt(s.until)
		return false
	}
	if late > 0 {
		c.reportToUser(rankwire.Notice{Host: c.cfg.Host, Text: fmt.Sprintf("there was no time to look whether processes "+
			"of this job are left on %s", plain.Plural(late, "node"))})
	}
	return true
}

// sweepBelow sweeps the nodes whose ranks are lost with an agent above them.
func (c *Core) sweepBelow() {
	most := c.sweepPatience()
	if c.root.sweeps.silent {
		most = silentPatience
	}
	for _, run := range c.finish.ends {
		if run.Status.Kind != job.Lost {
			continue
		}
		first, last := c.job.Layout.NodeOf(run.First), c.job.Layout.NodeOf(run.First+job.Slot(run.Count)-1)
		for node := first; node <= last && len(c.root.sweeps.known) < mostSwept; node++ {
			c.sweepNode(node, most)
		}
	}
}

// jobSwept answers the root of a job that this agent has swept its node for, and ends.
func (c *Core) jobSwept(ev JobSwept) {
	m := wire.Swept{Killed: ev.Killed}
	if len(ev.Left) > 0 {
		m.Left = nameLeft(ev.Left)
	}
	c.send(Up, m)
	c.stage = done
	c.do(Finish{})
}
