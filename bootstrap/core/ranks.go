package core

import (
	"ibrun/bootstrap/wire"
	"ibrun/job"
)

// ranks are this node's own.
type ranks struct {
	node         job.Node
	index        uint32 // of the node
	first, count uint32
	alive        uint32
	undrained    uint32
	ends         []job.StatusRun
	reported     bool // a rank's failure has been sent up
	// reportedAwaited: also one of a rank that its peers wait for, which ends any job.
	reportedAwaited bool
	stopped         bool // the ranks were told to end
	locals          []local
}

func (r *ranks) open(n job.Node, index uint32) {
	r.node, r.index, r.first, r.count = n, index, n.First, n.Ranks
	r.alive, r.undrained = n.Ranks, n.Ranks
	r.locals = make([]local, n.Ranks)
}

func (r *ranks) end(rank uint32, s job.Status) {
	r.alive--
	r.ends = append(r.ends, job.StatusRun{First: rank, Count: 1, Status: s})
}

func (c *Core) rankExited(ev RankExited) {
	c.ranks.end(ev.Rank, ev.Status)
	c.deaf(ev.Rank)
	c.rankEnded(ev.Rank, !ev.Status.OK())
	if ev.Status.OK() || c.ranks.stopped && !c.killed(ev.Status) || c.ranks.reported && (!ev.Awaited || c.ranks.reportedAwaited) {
		return
	}
	c.ranks.reported, c.ranks.reportedAwaited = true, c.ranks.reportedAwaited || ev.Awaited
	c.fault(wire.Fault{
		What: wire.FaultRank, Node: c.ranks.index, Nodes: 1, Rank: ev.Rank, Count: 1,
		Status: ev.Status, Awaited: ev.Awaited, Host: c.cfg.Host, Parent: c.cfg.Host,
	})
}

// killed reports whether somebody else killed a rank of a job that is ending:
// nothing but SIGKILL ends a process so, and this agent has not sent it yet.
func (c *Core) killed(s job.Status) bool {
	return s.Kind == job.Signaled && s.Code == sigKill && !c.finish.killed
}

// passSignal sends a signal to every rank of the subtree. A stop suspends the
// leases below: a stopped job is not a dead one.
func (c *Core) passSignal(n uint8) {
	c.clock.hold(n)
	for i := range c.kids {
		c.send(Link(i), wire.Signal{Number: n})
	}
	if c.ranks.alive > 0 {
		c.do(SignalRanks{n})
	}
	c.signalJobs(n)
}

// tellPeople passes on what is for people: wire.Placed or wire.Notice.
func (c *Core) tellPeople(m wire.Message) {
	if c.cfg.Root {
		c.do(Report{m})
		return
	}
	c.send(Up, m)
}

// fault reports a failure at once, ahead of any Exit.
func (c *Core) fault(f wire.Fault) {
	if c.cfg.Root {
		c.rootFault(f)
		return
	}
	c.send(Up, f)
}
