package core

import (
	"slices"

	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/internal/job"
)

func (c *Core) openRanks(n job.Node, index job.NodeIndex) {
	r := &c.ranks
	r.node, r.index = n, index
	r.locals = make([]local, n.Ranks)
	c.below.Own.Open(n.First, n.Ranks)
}

// endRank records how a rank of this node has ended.
func (c *Core) endRank(rank job.Slot, s job.Status) {
	c.below.Own.Alive--
	c.ranks.ends = append(c.ranks.ends, job.StatusRun{First: rank, Count: 1, Status: s})
}

// restart removes the exit status of a rank, because the rank is started again.
func (r *ranks) restart(rank job.Slot) {
	r.ends = slices.DeleteFunc(r.ends, func(run job.StatusRun) bool { return run.First == rank })
}

func (c *Core) rankExited(ev RankExited) {
	if c.ranks.fate == abandoned {
		return
	}
	c.endRank(ev.Rank, ev.Status)
	c.closeInput(ev.Rank)
	if c.recovery.Recalling() {
		c.tellRecovery(recovery.RankRecalled{Rank: ev.Rank})
		return
	}
	aborted := c.local(ev.Rank).aborted // the rank has reported the reason with Abort already
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
	if how := c.job.Launch; ev.Handles && how.Restarts && !how.RestartAll && !ev.Status.OK() && !aborted && c.ranks.fate == free && c.stage != ending {
		c.excuseRank(ev.Rank, f)
		return
	}
	if !ev.Status.OK() && c.ranks.fate == free && c.recovery.MayRestart(ev.PMI) {
		f.Awaited = false
		c.tellRecovery(recovery.RankFailed{Rank: ev.Rank})
		c.fault(f)
		return
	}
	c.rankOver(ev.Rank, !ev.Status.OK())
	if ev.Status.OK() && !awaited {
		return
	}
	w := weightOf(f)
	if news := w > c.ranks.reported || f.Awaited && !c.ranks.awaited; news && (c.ranks.fate == free || w > consequence && c.byItself(ev)) {
		c.ranks.reported, c.ranks.awaited = max(w, c.ranks.reported), c.ranks.awaited || f.Awaited
		c.fault(f)
	}
}

func (c *Core) rankDrained(rank job.Slot) {
	if c.ranks.fate != abandoned {
		c.below.Own.Undrained--
		c.tellRecovery(recovery.RankDrained{Rank: rank})
	}
}

// byItself reports whether a rank that has exited while the job ends did so for another reason. It did if this agent
// had not signaled the rank before, or if the rank died of SIGKILL and this agent has not sent SIGKILL yet.
func (c *Core) byItself(ev RankExited) bool {
	if ev.Status.Code == sigKill {
		return !c.finish.killed
	}
	return !ev.Signaled
}

// passSignal sends the signal n to every rank of the subtree. The root also sends it to the spawned jobs.
func (c *Core) passSignal(n uint8) {
	c.repair.signals.Add(n)
	c.sendDown(wire.Signal{Number: n})
	switch {
	case n == sigTstp:
		c.hold()
	case n == sigCont:
		c.resume()
	case c.lately(c.managed.direct, n):
	case c.starts.ranks != unforked && c.below.Own.Alive > 0:
		c.do(SignalRanks{n})
	}
	c.signalJobs(n)
}

// exitStatus returns the status of a program that has exited with the given code.
func exitStatus(code uint8) job.Status { return job.Status{Kind: job.Exited, Code: code} }

// reportToUser forwards the message m, which is for the user: a wire.Placed, wire.Waiting or rankwire.Notice.
func (c *Core) reportToUser(m frame.Message) {
	if c.cfg.Root {
		c.do(Report{m})
		return
	}
	c.send(Up, m)
}

// fault reports a failure immediately. At the root it handles the failure, and other agents send it to the parent.
func (c *Core) fault(f wire.Fault) {
	if c.cfg.Root {
		c.rootFault(f)
		return
	}
	if c.repairs() && c.starts.readied && c.starts.ranks != unforked { // the nodes have their final indices
		c.ownReport(f, false)
		return
	}
	c.send(Up, f)
}

// excuseRank lets the job continue without a rank that has failed. The rank is not restarted, because its program has
// registered with PMIx that it handles failures of ranks. The other ranks are told.
func (c *Core) excuseRank(rank job.Slot, f wire.Fault) {
	f.Awaited, f.Excused = false, true
	c.tellRecovery(recovery.RanksLost{Ranks: recovery.Span{First: rank, Count: 1}})
	c.rankOver(rank, true)
	c.fault(f)
}

// rollbackAsked handles the request of a rank to restart all ranks.
func (c *Core) rollbackAsked(rank job.Slot, text string) {
	if !c.job.Launch.Restarts || c.recovery.Recalling() {
		return
	}
	c.fault(wire.Fault{
		What: wire.FaultRollback, Node: c.ranks.index, Nodes: 1, Rank: rank, Count: 1, Status: exitStatus(1),
		Host: c.cfg.Host, Parent: c.cfg.Host, Cause: text,
	})
}
