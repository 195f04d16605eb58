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

// exitSlack is the time beyond the grace that a subtree has to report its end.
const exitSlack = 3 * time.Second

// killSlack is the same when a person has asked twice.
const killSlack = 700 * time.Millisecond

// Two thirds of that are for processes to die of SIGKILL in, the rest is for the news
// of it to come to the root. When a job ends by itself they have as long as here.
const sweepMost = 2 * time.Second

// orphanGrace bounds the grace of ranks whose job is gone: nobody waits for
// what they would still do. The promise is five seconds.
const orphanGrace = 2 * time.Second

// end ends this subtree's part of the job. A second order can only shorten
// the grace.
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
		} else if !c.job.Launch.Hold || m.Signal == 0 { // a rank that is held would run until the signal comes
			c.do(SignalRanks{sigCont})
		}
		if m.Signal != 0 {
			c.do(SignalRanks{m.Signal})
		}
	}
	if wasStopped {
		c.signalJobs(sigCont)
	}
	c.signalJobs(sigTerm) // the second one hurries them
	c.checkDeadlines()
}

// ended records how the ranks of nodes ended that will not report them.
func (c *Core) ended(nodes job.Parts, s job.Status) {
	for _, p := range nodes {
		if n := p.Nodes; n.Ranks() > 0 {
			c.finish.ends = append(c.finish.ends, job.StatusRun{First: n.Base(), Count: n.Ranks(), Status: s})
		}
	}
}

// checkDeadlines acts on what is due.
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

// checkExit ends this agent when nothing of its subtree is left: every rank
// is dead and read to the end, every child has reported or is lost, all output
// is passed on, and what the ranks left behind is swept up.
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

// mostEndings is what of an Exit the ends of ranks may take, in bytes.
const mostEndings = frame.MaxSize - 1<<16

// coarser is half as many runs: of two neighbours the first that failed counts for
// both. It takes eight million ranks that end differently from their neighbours.
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

// orphaned ends this subtree because the parent is gone. Nothing more can be
// said upwards; what the ranks still print is dropped.
func (c *Core) orphaned(silent bool) {
	c.clock.linked = false
	c.flow.discarding = true
	c.perform(c.tools.ParentLost())
	if silent && c.job != nil && c.job.Launch.Restarts { // others may take the ranks' place soon
		c.end(wire.End{Signal: sigKill})
		return
	}
	grace := uint32(0)
	if c.job != nil {
		grace = ms(min(c.job.Launch.Grace, orphanGrace))
	}
	c.end(wire.End{Signal: sigTerm, GraceMs: grace})
}

// ownLoss ends this subtree because this agent cannot go on.
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
