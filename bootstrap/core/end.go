package core

import (
	"time"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// exitSlack is the time that a subtree has to report its end after its grace period is over.
const exitSlack = 3 * time.Second

// killSlack replaces exitSlack if the ranks are killed at once, for example after a second Ctrl-C.
const killSlack = 700 * time.Millisecond

// sweepMost is the maximum time for which a Sweep waits for processes to die. It is two thirds of exitSlack. The
// remaining third is for the report to the root.
const sweepMost = 2 * time.Second

// orphanGrace is the maximum grace period of ranks whose agent has lost its parent. With exitSlack, such ranks end
// within five seconds.
const orphanGrace = 2 * time.Second

// end ends the ranks and agents of this subtree. A later call can only shorten the grace period.
func (c *Core) end(m wire.End) {
	if c.stage == idle {
		c.become(done)
		c.do(Finish{})
		return
	}
	f := &c.finish
	grace := time.Duration(m.GraceMs) * time.Millisecond
	if f.killAt > 0 && c.now+grace >= f.killAt {
		return
	}
	slack := exitSlack
	if m.Signal == sigKill {
		slack = killSlack
	}
	f.killAt, f.giveUpAt = c.now+grace, c.now+grace+slack
	if c.stage != ending {
		c.become(ending)
	}
	wasStopped := c.clock.stopped
	c.unhold()
	notBegun := c.queue.GiveAll()
	c.ended(notBegun, job.Status{Kind: job.NotRun})
	c.starts.failed += uint32(notBegun.Len())
	c.dropRanks()
	c.tellRecovery(recovery.Ended{})
	for i := range c.children {
		e := child.End
		if c.children[i].In(child.Lost) {
			if s, ok := c.successorOf(Link(i)); ok && c.children[s].In(child.SuccessorUp) {
				e = child.EndSucceeded
			}
		}
		c.happen(Link(i), e, m)
	}
	c.toolsClosed()
	if c.below.Own.Alive > 0 {
		c.ranks.fate = max(c.ranks.fate, toldToEnd)
		if wasStopped {
			c.do(ContinueRanks{})
		} else if !c.job.Launch.Hold || m.Signal == 0 { // SIGCONT first would let a stopped rank run
			c.do(SignalRanks{sigCont})
		}
		if m.Signal != 0 {
			c.do(SignalRanks{m.Signal})
		}
	}
	if wasStopped {
		c.signalJobs(sigCont)
	}
	c.signalJobs(sigTerm) // a second SIGTERM makes the spawned jobs end sooner
	c.checkDeadlines()
}

// ended records the status s for all ranks of nodes. It is called for nodes whose agent will not report their ranks.
func (c *Core) ended(nodes job.Parts, s job.Status) {
	for _, p := range nodes {
		if n := p.Nodes; n.Ranks() > 0 {
			c.finish.ends = append(c.finish.ends, job.StatusRun{First: n.Base(), Count: n.Ranks(), Status: s})
		}
	}
}

// checkDeadlines performs all actions whose time has come.
func (c *Core) checkDeadlines() {
	f := &c.finish
	if c.cfg.Root {
		c.rootDeadlines()
	}
	c.checkHold()
	c.checkWait()
	c.doLookups(c.lookups.Due(c.now))
	c.doQueries(c.queries.Due(c.now))
	c.perform(c.tools.Due(c.now))
	c.askBack()
	if f.leaveAt > 0 && c.stage != ending {
		if c.now < f.leaveAt {
			c.wakeAt(f.leaveAt)
		} else {
			c.leave(f.leaveBy)
		}
	}
	if f.killAt == 0 {
		return
	}
	if c.now < f.killAt {
		c.wakeAt(f.killAt)
		return
	}
	if !f.killed {
		f.killed = true
		if c.below.Own.Count() > 0 {
			c.killRanks()
		}
	}
	if c.now < f.giveUpAt {
		c.wakeAt(f.giveUpAt)
		return
	}
	for i := range c.children {
		if !c.children[i].In(child.Ended) {
			c.happen(Link(i), child.GiveUp, nil)
			c.tellRecovery(recovery.ChildrenSilent{})
		}
	}
	if o := &c.root.offspring; !o.killed {
		o.killed = true
		c.signalJobs(sigKill)
	}
}

// checkExit ends this agent when its subtree has ended. Then every rank of this node has ended, all output was
// forwarded, every child has reported or was lost, and the processes that the ranks left were killed.
func (c *Core) checkExit() {
	f := &c.finish
	if c.repair.left {
		c.checkLeft()
		return
	}
	if c.stage != running && c.stage != ending || c.below.Own.Alive > 0 || c.recovery.Restarting() || c.below.Own.Undrained > 0 ||
		!c.flow.empty() || c.rests() || f.childrenEnded < len(c.children) {
		return
	}
	if !c.toolsClosed() && c.root.asked <= 1 {
		return
	}
	if c.cfg.Root {
		c.rootExit()
		return
	}
	if f.sweep == unswept && c.starts.ranks != unforked {
		f.sweep = sweeping
		c.do(Sweep{sweepMost})
	}
	if f.sweep == sweeping {
		return
	}
	if c.stage == running {
		c.tellRecovery(recovery.Exiting{}) // send the failures that are delayed
	}
	ends := f.ends
	if !c.below.Own.Left() {
		ends = append(ends, c.ranks.ends...)
	}
	runs := wire.NewEndings(job.MergeRuns(ends)...)
	for runs.Size() > mostEndings {
		runs = coarser(runs)
	}
	if c.job.Transport.Stats {
		c.send(Up, rankwire.Tally{Of: c.counted()})
	}
	exit := wire.Exit{Runs: runs, Truncated: job.Added(f.trunc, c.flow.truncated), MPI: f.mpi}
	c.send(Up, exit)
	if c.repair.left, c.repair.exit = true, exit; c.repairs() { // this agent stays until the job ends
		c.checkLeft()
		return
	}
	c.become(done)
	c.do(Finish{})
}

// mostEndings is the maximum size of the Runs of an Exit message, in bytes.
const mostEndings = frame.MaxSize - 1<<16

// coarser merges pairs of adjacent runs. A merged run has the status of the first one that failed. This is needed only
// if millions of ranks end differently from their neighbours.
func coarser(runs wire.Endings) wire.Endings {
	var out []job.StatusRun
	joined := true
	for r := range runs.All() {
		last := len(out) - 1
		if joined || out[last].End() != r.First {
			out, joined = append(out, r), false
			continue
		}
		if out[last].Count += r.Count; out[last].Status.OK() {
			out[last].Status = r.Status
		}
		joined = true
	}
	return wire.NewEndings(out...)
}

// orphaned ends this subtree because the parent was lost. Output of the ranks is dropped. silent is true if the host of
// the parent did not answer.
func (c *Core) orphaned(silent bool) {
	c.clock.linked = false
	c.flow.discarding = true
	c.perform(c.tools.ParentLost())
	if silent && c.job != nil && c.job.Launch.Restarts { // the root may soon start these ranks on other nodes
		c.end(wire.End{Signal: sigKill})
		return
	}
	grace := uint32(0)
	if c.job != nil {
		grace = ms(min(c.job.Launch.Grace, orphanGrace))
	}
	c.end(wire.End{Signal: sigTerm, GraceMs: grace})
}

// ownLoss ends this subtree because this agent cannot continue.
func (c *Core) ownLoss(cause string, grace time.Duration) {
	if c.stage != ending && c.job != nil {
		c.fault(wire.Fault{
			What: wire.FaultLost, Node: c.ranks.index, Nodes: 1, Host: c.cfg.Host, Parent: c.cfg.Host, Cause: cause,
		})
	}
	c.end(wire.End{Signal: sigTerm, GraceMs: ms(grace)})
}

// reaperLost handles the death of this agent's reaper process.
func (c *Core) reaperLost() {
	if c.survives() && !c.cfg.Root {
		c.leave(sigKill)
		return
	}
	c.ownLoss("the reaper of its agent was killed", 0)
}

// leaveAfter is the duration for which an agent waits for an End after its node has sent it a signal that ends
// processes. It is longer than toldWindow.
const leaveAfter = 3 * time.Second

// endRequested handles a signal to end this agent, for example SIGTERM from the shutdown of its node. The root decides
// whether the job ends. If the job survives the loss of this node, this agent leaves after leaveAfter.
func (c *Core) endRequested(signal uint8) {
	switch {
	case c.stage == ending || c.finish.leaveAt > 0:
		return
	case c.cfg.Root:
		c.interrupted(signal)
		return
	case c.job == nil:
		c.end(wire.End{})
		return
	}
	c.fault(wire.Fault{
		What: wire.FaultTold, Node: c.ranks.index, Nodes: 1, Host: c.cfg.Host, Parent: c.cfg.Host,
		Status: job.Status{Kind: job.Signaled, Code: signal},
	})
	if !c.survives() {
		c.end(wire.End{Signal: sigTerm, GraceMs: ms(c.job.Launch.Grace)})
		return
	}
	c.finish.leaveAt, c.finish.leaveBy = c.now+leaveAfter, signal
	c.wakeAt(c.finish.leaveAt)
}

// survives reports whether the job continues if this node is lost.
func (c *Core) survives() bool { return c.stage == running && (c.repairs() || c.job.Launch.Restarts) }

// leave ends this agent at once. Its parent and its children see their links end, as after SIGKILL.
func (c *Core) leave(signal uint8) {
	c.become(done)
	c.do(Leave{signal})
}
