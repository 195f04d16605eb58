package core

import (
	"time"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/core/queue"
	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// A session that takes longer than slowAfter is reported to the user. The report is repeated at the interval slowEvery.
const (
	slowAfter = 3 * time.Second
	slowEvery = 5 * time.Second
)

// start begins the launch of the nodes in m. The first of them is the node of this agent, except in the root, which
// gets all nodes of the job and runs no ranks itself.
func (c *Core) start(m wire.Launch) {
	c.become(launching)
	c.job, c.below.Layout = m.Job, m.Job.Layout
	c.lookups.Open(m.Job.Transport)
	c.level = int(m.Level)
	c.openRecovery(m)
	c.times = newTimes(c.cfg.Root || m.Job.Launch.Timed, c.cfg.Root, c.now, m.First)
	// The text cannot be wrong, because a root of the same build has written it.
	c.shape, _ = tree.Parse(m.Job.Launch.Tree)
	c.queue = queue.New(queue.Config{
		Window: c.cfg.Window, Batch: int(m.Job.Launch.Batch), Most: c.cfg.Most, Cores: c.cfg.Cores, Cost: c.shape.Cost,
	})
	all := job.Part{First: m.First, Nodes: m.Nodes}
	if c.cfg.Root {
		c.starts.ranks = forked
	} else {
		c.cfg.Host = m.Nodes.At(0).Host
		c.starts.up = 1
		c.openRanks(m.Nodes.At(0), m.First)
		if !m.Job.Launch.StartBarrier && !m.Replaces {
			c.fork()
		}
		all = all.Slice(1, m.Nodes.Len())
	}
	below := job.Parts(m.Share)
	if all.Nodes.Len() > 0 {
		below = below.Add(all)
	}
	if m.Job.Launch.LateBinding {
		c.queue.Nodes = c.cutHere(below)
	} else {
		c.plan(below)
	}
	c.flow.open(len(c.shape.Split(c.level, below.Len()+1)))
	c.input.open(c)
}

// fork starts this node's ranks.
func (c *Core) fork() {
	r := &c.ranks
	c.starts.ranks, c.starts.begunAt = forking, c.now
	c.tellRecovery(recovery.NodeStarted{})
	c.times.markOwn(job.ForkStarted, c.now)
	f := Fork{Job: c.job, Node: r.node, Index: r.index, Op: c.collectives.FloorOp()}
	if c.below.Own.Count() > 0 {
		f.Start = c.below.Own.Of(c.below.Own.First()).Start()
	}
	if f.Start == 0 { // standard input goes to the first start of the ranks only
		c.input.openOwn(c)
	}
	c.do(f)
}

// plan adds the children of this agent in a tree of fixed shape, and divides the nodes in below among them. If a node
// is the machine of the root, it becomes the first node of a child of the root, whose session needs no remote shell.
func (c *Core) plan(below job.Parts) {
	for _, size := range c.shape.Split(c.level, below.Len()+1) {
		var of job.Parts
		of, below = below.Cut(size)
		for _, p := range of {
			if cut := c.here(p); cut > 0 {
				c.addBranch(p.Slice(0, cut), tried{}, child.Waiting)
				p = p.Slice(cut, p.Nodes.Len())
			}
			c.addBranch(p, tried{}, child.Waiting)
		}
	}
}

func (c *Core) startMore() {
	s := &c.starts
	for c.stage == launching {
		if s.inFlight >= c.queue.Window {
			if due, again := c.queue.Observe(c.now, s.next < len(c.children)); due {
				c.do(ObserveSessions{})
			} else if again > 0 {
				c.wakeAt(again)
			}
			return
		}
		if s.next == len(c.children) {
			one, ok := c.queue.Take()
			if !ok {
				return
			}
			c.addBranch(one, tried{}, child.Waiting)
		}
		s.next++
		c.happen(Link(s.next-1), child.Start, nil)
	}
}

// openSession requests the first session to child l, and counts it among the concurrent sessions.
func (c *Core) openSession(l Link) {
	k := &c.children[l]
	k.started, k.phase = c.now, "start"
	c.times.markChild(k, job.SessionStarted, c.now)
	c.starts.inFlight++
	c.do(StartChild{Child: l, Node: k.head.Nodes.At(0), Local: k.local, Most: k.tried.most(c.job.Launch.Timeout)})
}

// sendLaunch sends a child its Launch, after the session to the child was opened.
func (c *Core) sendLaunch(l Link, ev ChildUp) {
	k := &c.children[l]
	k.life, k.credit = life{received: c.now}, c.flow.window
	c.times.markChild(k, job.LaunchSent, c.now)
	if k.times != nil {
		k.times.head.CPU = ev.CPU
	}
	k.session = c.now - k.started
	if t := k.tried; t.by != "" {
		c.fault(wire.Fault{What: wire.FaultFallback, Node: k.head.First, Nodes: 1, Host: k.host(), Parent: t.by, Phase: t.phase, Cause: t.cause})
	}
	c.queue.SessionUp(k.local, k.session, ev.Spent)
	m := wire.Launch{Job: c.job, Nodes: k.planned.Nodes, First: k.planned.First, Level: uint32(c.level + 1),
		Credit: uint32(c.flow.window), SessionMs: uint32(k.session / time.Millisecond), Replaces: k.In(child.Replacing)}
	switch {
	case k.In(child.Coming):
		m.Job = c.root.growing.job
	case c.job.Launch.LateBinding && !m.Replaces:
		m.Share = c.share(k)
	}
	c.send(l, m)
}

func (c *Core) childPhase(ev ChildPhase) {
	if k := &c.children[ev.Child]; k.In(child.Opening) {
		k.phase = ev.Phase
		if ev.Moment < job.Moments {
			c.times.markChild(k, ev.Moment, c.now)
		}
	}
}

// returnNodes handles the nodes of child l, whose session has failed. It returns them to this agent's parent, so that
// another agent tries to start them. If another agent has already tried, or this agent is the root, it reports them as
// not started.
func (c *Core) returnNodes(l Link, ev ChildFailed) {
	k := &c.children[l]
	part := k.planned
	if !c.cfg.Root && k.tried.by == "" {
		k.times = nil // the agent that starts these nodes measures its own times
		c.returnUp(part, ev)
		return
	}
	c.starts.failed += uint32(part.Nodes.Len())
	c.fault(wire.Fault{
		What: wire.FaultLaunch, Node: part.First, Nodes: uint32(part.Nodes.Len()), Host: part.Nodes.At(0).Host,
		Parent: c.cfg.Host, Phase: ev.Phase, Cause: ev.Cause, Tail: ev.Tail,
	})
}

func (c *Core) forkDone(ev ForkDone) {
	c.starts.ranks = forked
	c.times.markOwn(job.RanksStarted, c.now)
	for _, f := range ev.Failed {
		c.endRank(f.Rank, job.Status{Kind: job.NotRun, Code: f.Code})
		c.rankOver(f.Rank, true)
		c.below.Own.Undrained--
		c.closeInput(f.Rank)
	}
	if c.stage == ending {
		c.endForked()
	}
	c.tellRecovery(recovery.NodeForked{})
	if c.clock.stopped {
		c.do(StopRanks{})
	}
	if c.recovery.StartsNode() {
		respawned := recovery.NodeRespawned{}
		if len(ev.Failed) > 0 {
			respawned = recovery.NodeRespawned(ev.Failed[0])
		}
		c.tellRecovery(respawned)
		return
	}
	if len(ev.Failed) > 0 && c.stage != ending {
		f := ev.Failed[0]
		c.fault(wire.Fault{
			What: wire.FaultFork, Node: c.ranks.index, Nodes: 1, Rank: f.Rank, Count: uint32(len(ev.Failed)),
			Status: job.Status{Kind: job.NotRun, Code: f.Code}, Host: c.cfg.Host, Parent: c.cfg.Host, Cause: f.Cause,
		})
	}
}

// checkReady ends the launch when each child is ready or has failed, and sends Ready to the parent.
func (c *Core) checkReady() {
	s := &c.starts
	if c.stage != launching || s.readied || s.ranks == forking || s.reported < len(c.children) || c.queue.Nodes.Len() > 0 {
		return
	}
	s.readied = true
	c.become(running)
	if c.cfg.Root {
		c.rootReady()
		return
	}
	c.tellRecovery(recovery.Launched{})
	if c.times.on {
		c.send(Up, c.times.report(c.now, c.children))
	}
	c.sendBelow()
	c.send(Up, wire.Ready{Up: s.up, Failed: s.failed})
}

// reportSlow reports to the user which sessions and which ranks of this node the launch is waiting for.
func (c *Core) reportSlow() {
	s := &c.starts
	unspawned := s.ranks == forking && c.stage != ending
	if c.stage != launching && !unspawned || s.slowReported > 0 && c.now-s.slowReported < slowEvery {
		return
	}
	var w wire.Waiting
	if unspawned && c.now-s.begunAt >= slowAfter {
		w.Items = append(w.Items, wire.SlowSession{Node: c.ranks.index, Host: c.cfg.Host, Phase: "start of its ranks", ForMs: ms(c.now - s.begunAt)})
	}
	for i := range c.children[:s.next] {
		k := &c.children[i]
		if k.In(child.Opening) && c.now-k.started >= slowAfter && len(w.Items) < wire.MaxSlowSessions {
			w.Items = append(w.Items, wire.SlowSession{Node: k.head.First, Host: k.host(), Phase: k.phase, ForMs: ms(c.now - k.started)})
		}
	}
	if len(w.Items) > 0 {
		s.slowReported = c.now
		c.reportToUser(w)
	}
}

func ms(d time.Duration) uint32 { return uint32(min(d.Milliseconds(), 1<<31)) }
