package core

import (
	"time"

	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/internal/job"
)

// ranks are this node's own.
type ranks struct {
	node      job.Node
	index     job.NodeIndex
	alive     uint32
	undrained uint32
	ends      []job.StatusRun
	reported  weight        // the heaviest failure of a rank that has been sent up
	awaited   bool          // so has that of one that its peers wait for, which ends any job
	stopped   bool          // the ranks were told to end
	abandoned bool          // those that live cannot be ended, and what becomes of them counts no more
	stopAt    time.Duration // when ranks that are to stop are made to; 0: never
	locals    []local
	starts    []start // of ranks that may start again
	lost      uint32  // of them, failed and not started again
	fences    int     // that have not been answered
}

func (c *Core) openRanks(n job.Node, index job.NodeIndex) {
	r := &c.ranks
	r.node, r.index = n, index
	r.alive, r.undrained = n.Ranks, n.Ranks
	r.locals = make([]local, n.Ranks)
	if c.job.Launch.Restarts {
		r.starts = make([]start, n.Ranks)
	}
	c.below.Own.Open(n.First, n.Ranks)
}

func (r *ranks) end(rank job.Slot, s job.Status) {
	r.alive--
	r.ends = append(r.ends, job.StatusRun{First: rank, Count: 1, Status: s})
}

func (c *Core) rankExited(ev RankExited) {
	if c.ranks.abandoned {
		return
	}
	c.ranks.end(ev.Rank, ev.Status)
	c.closeInput(ev.Rank)
	if c.recalls() {
		c.recalled(ev.Rank)
		return
	}
	aborted := c.local(ev.Rank).aborted // which has said why it ends
	awaited := ev.Awaited && !aborted
	f := wire.Fault{
		What: wire.FaultRank, Node: c.ranks.index, Nodes: 1, Rank: ev.Rank, Count: 1,
		Status: ev.Status, Awaited: awaited || ev.PMI && c.job.Launch.Restarts && !c.job.Launch.RestartAll && !aborted,
		Host: c.cfg.Host, Parent: c.cfg.Host, Cause: ev.Cause,
	}
	if c.job.Launch.RestartAll && aborted {
		c.rankOver(ev.Rank, true)
		return
	}
	if how := c.job.Launch; ev.Handles && how.Restarts && !how.RestartAll && !ev.Status.OK() && !aborted && !c.ranks.stopped && c.stage != ending {
		c.excuseRank(ev.Rank, f)
		return
	}
	if c.mayRestart(ev) {
		f.Awaited = false
		c.lostRank(ev.Rank, f)
		return
	}
	c.rankOver(ev.Rank, !ev.Status.OK())
	if ev.Status.OK() && !awaited {
		return
	}
	w := weightOf(f)
	if news := w > c.ranks.reported || f.Awaited && !c.ranks.awaited; news && (!c.ranks.stopped || w > consequence && c.byItself(ev)) {
		c.ranks.reported, c.ranks.awaited = max(w, c.ranks.reported), c.ranks.awaited || f.Awaited
		c.fault(f)
	}
}

func (c *Core) rankDrained(rank job.Slot) {
	if !c.ranks.abandoned {
		c.ranks.undrained--
		if c.ranks.starts != nil {
			c.ranks.starts[c.below.Own.Index(rank)].drained = true
		}
	}
}

// byItself reports whether a rank that a signal ended while the job does died for
// another reason: before it was told to end, or of SIGKILL, which this agent has not
// sent yet.
func (c *Core) byItself(ev RankExited) bool {
	if ev.Status.Code == sigKill {
		return !c.finish.killed
	}
	return !ev.Signaled
}

// passSignal sends a signal to every rank of the subtree.
func (c *Core) passSignal(n uint8) {
	c.repair.signals.Add(n)
	c.sendDown(wire.Signal{Number: n})
	switch {
	case n == sigTstp:
		c.hold()
	case n == sigCont:
		c.resume()
	case c.lately(c.managed.direct, n):
	case c.starts.begun && c.ranks.alive > 0:
		c.do(SignalRanks{n})
	}
	c.signalJobs(n)
}

// exitStatus is the status of a program that ended with a code.
func exitStatus(code uint8) job.Status { return job.Status{Kind: job.Exited, Code: code} }

// reportToUser forwards the message m, which is for the user: a wire.Placed, wire.Waiting or rankwire.Notice.
func (c *Core) reportToUser(m frame.Message) {
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
	if c.repairs() && c.starts.readied && c.starts.begun { // the nodes have their final numbers
		c.ownReport(f, false)
		return
	}
	c.send(Up, f)
}
