package core

import (
	"slices"
	"time"

	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

const (
	// launchSettle is how long the root waits, after the first session that
	// failed, for others that fail too, so that one table names them all.
	launchSettle = time.Second
	// deafAfter is the maximum time for which output that is not read may delay the end of the job after an interrupt.
	deafAfter = 500 * time.Millisecond
	// maxFaults is the maximum number of failures that the root retains.
	maxFaults = 4096
)

func (c *Core) begin(m wire.Launch) {
	c.flow.credit = sinkWindow
	if t := c.cfg.Policy.Timeout; t > 0 {
		c.root.timeoutAt = c.now + t
		c.wakeAt(c.root.timeoutAt)
	}
	c.start(m)
}

// because records the first cause; later ones are consequences.
func (c *Core) because(k CauseKind, code int) bool {
	o := &c.root.out
	if o.Cause != CauseNone {
		return false
	}
	o.Cause, o.Code = k, code
	return true
}

func (c *Core) rootFault(f wire.Fault) {
	switch {
	case f.What == wire.FaultFallback:
		c.fallback(f)
		return
	case f.What == wire.FaultLaunch && c.replaceNode(f), f.What == wire.FaultTold && c.outlasts(f):
		return
	}
	if (f.What == wire.FaultRank && !f.Awaited && !f.Excused || f.What == wire.FaultRollback) && c.job.Launch.Restarts &&
		c.stage != ending {
		c.tellRecovery(recovery.Failure{Fault: f, Spawned: c.root.offspring.live > 0})
		return
	}
	if f.What == wire.FaultLost {
		c.nodeLost(f, false)
		return
	}
	if f.What == wire.FaultRollback || f.What == wire.FaultAbort && c.recovery.HoldsAbort() {
		if f.What == wire.FaultAbort {
			c.tellRecovery(recovery.Abort{Fault: f})
		}
		return // the job ends, or may start again
	}
	if f.Awaited && c.job.Launch.Restarts && !c.job.Launch.RestartAll {
		f.Cause = recovery.Joined(f.Cause, recovery.UsesPMI)
	}
	w := weightOf(f)
	f.Awaited = f.Awaited && !c.cfg.Policy.KillOnBad // with KillOnBad the job ends in any case
	c.blame(f, w)
	switch f.What {
	case wire.FaultRank:
		if f.Awaited && c.root.out.Fault != f && c.stage != ending {
			c.reportBlame()
			c.do(Report{f}) // f is not the first failure, but the reason for the end of the job
		}
		if (c.cfg.Policy.KillOnBad || f.Awaited) && !f.Excused {
			c.endAll(sigTerm)
		}
	case wire.FaultLaunch:
		all := c.recovery.Members().All
		lo := uint32(f.Node - all.First)
		if hi := lo + f.Nodes; lo < hi && hi <= uint32(all.Nodes.Len()) {
			c.ended(job.Parts{all.Slice(int(lo), int(hi))}, job.Status{Kind: job.NotRun})
		}
		if c.root.settleAt == 0 {
			c.root.settleAt = c.now + launchSettle
			c.wakeAt(c.root.settleAt)
		}
	default:
		c.endAll(sigTerm)
		c.tellRecovery(recovery.EndedBy{Fault: f, Session: c.queue.SessionTime()})
	}
}

// fallback records a node to which only another agent than its parent could open a session. It tells the user only of
// the first such node.
func (c *Core) fallback(f wire.Fault) {
	o := &c.root.out
	if len(o.Fallbacks) == 0 {
		c.do(Report{f})
	}
	if len(o.Fallbacks) < maxFaults {
		o.Fallbacks = append(o.Fallbacks, f)
	}
}

// faultCode is the exit code for a job that ended because of f.
func faultCode(f wire.Fault) int {
	switch f.What {
	case wire.FaultRank:
		return max(f.Status.ExitCode(), codeLeft)
	case wire.FaultFork, wire.FaultAbort, wire.FaultRollback, wire.FaultTold:
		return f.Status.ExitCode()
	}
	return codeSelf
}

// toldWindow is the maximum time between the first and the last agent that is told to end, if a resource manager ends
// the whole job. If fewer agents are told to end, only their nodes shut down.
const toldWindow = 2 * time.Second

// outlasts reports whether the job continues although an agent was told to end. It continues if it can survive the loss
// of a node and not all agents were told within toldWindow. If all were told, a resource manager ends the job, and no
// spare is started.
func (c *Core) outlasts(f wire.Fault) bool {
	r := &c.root
	r.told = slices.DeleteFunc(r.told, func(t told) bool { return t.node == f.Node || c.now-t.at > toldWindow })
	r.told = append(r.told, told{f.Node, c.now})
	return c.survives() && len(r.told) < int(c.job.Layout.Nodes())
}

// Exit codes that are not a rank's own.
const (
	codeLeft    = 1 // a rank left its peers waiting and exited with 0
	codeTimeout = 124
	codeSelf    = 125
	codePipe    = 128 + sigPipe
)

// endFor ends the job and reports the failure f as the reason.
func (c *Core) endFor(f wire.Fault) {
	c.blame(f, weightOf(f))
	c.endAll(sigTerm)
}

// endAll ends the job with the job's own grace.
func (c *Core) endAll(signal uint8) {
	if c.stage != ending {
		c.end(wire.End{Signal: signal, GraceMs: ms(c.job.Launch.Grace)})
	}
}

func (c *Core) interrupted(signal uint8) {
	switch signal {
	case sigInt, sigTerm, sigHup, sigQuit:
	case sigTstp:
		c.stop()
		return
	default:
		if !c.signaled(signal) {
			c.passSignal(signal)
		}
		return
	}
	r := &c.root
	if signal == sigQuit && r.asked == 0 && !c.hasLooked(signal) {
		return
	}
	r.stop = stopNone
	r.asked++
	if c.stage == idle {
		c.because(CauseSignal, 128+int(signal))
		r.out.Signal = signal
		c.rootDone()
		return
	}
	if r.asked > 1 {
		c.flow.discarding = true
		c.end(wire.End{Signal: sigKill})
		return
	}
	if c.because(CauseSignal, 128+int(signal)) {
		r.out.Signal = signal
	}
	r.deafAt = c.now + deafAfter
	c.wakeAt(r.deafAt)
	c.endAll(signal)
}

const (
	sigHup  = 1
	sigQuit = 3
)

func (c *Core) sinkFailed(ev SinkFailed) {
	c.flow.discarding = true
	code := codeSelf
	if ev.Pipe {
		code = codePipe
	}
	if c.because(CauseSink, code) {
		c.root.out.Text = ev.Cause
	}
	c.endAll(sigTerm)
}

// rootReady ends the launch.
func (c *Core) rootReady() {
	if c.root.settleAt > 0 {
		c.endAll(sigTerm) // the result of every session is known, so waiting until settleAt is unnecessary
		return
	}
	if c.job.Launch.StartBarrier {
		c.applyMembership(c.recovery.Members().Membership(c.job))
	}
	c.root.out.AllStarted = true
	c.tellRecovery(recovery.Launched{})
	nodes, missing := c.times.all(c.children)
	c.do(Report{LaunchDone{Agents: c.starts.up, Times: slices.Collect(nodes), Missing: missing, Spares: c.recovery.Members().Replaced}})
}

// progress reports to the user how many nodes have been launched, after the child k of the root has settled.
func (c *Core) progress(k *branch) {
	if c.cfg.Root && c.stage == launching {
		c.root.settled += k.part.Len()
		c.do(Report{Progress{c.root.settled}})
	}
}

func (c *Core) rootReceivedExit() {
	if w := c.cfg.Policy.Wait; w > 0 && c.root.waitAt == 0 {
		c.root.waitAt = c.now + w
		c.wakeAt(c.root.waitAt)
	}
}

// rootDeadlines acts on what is due at the root, and keeps the timer for the rest.
func (c *Core) rootDeadlines() {
	r := &c.root
	due := func(at time.Duration) bool {
		if at > c.now {
			c.wakeAt(at)
		}
		return at > 0 && at <= c.now
	}
	if due(r.timeoutAt) && c.hasLooked(0) {
		c.endOfTime(CauseTimeout, codeTimeout)
	}
	if due(r.settleAt) {
		c.endAll(sigTerm)
	}
	if due(r.waitAt) && !c.clock.stopped {
		c.endOfTime(CauseWait, codeSelf)
	}
	c.tellRecovery(recovery.Tick{})
	if due(r.blameAt) {
		c.reportBlame()
	}
	if due(r.deafAt) && c.stage == ending {
		c.flow.discarding = true
	}
}

// endOfTime ends a job whose time is up, also one that has gone on after a failure, which stays the cause.
func (c *Core) endOfTime(k CauseKind, code int) {
	if !c.because(k, code) && c.stage != ending {
		c.root.out.EndedBy = k
	}
	c.endAll(sigTerm)
}

// rootExit ends the job when all output is written.
func (c *Core) rootExit() {
	if c.root.offspring.live > 0 || !c.flow.discarding && c.flow.credit < sinkWindow || !c.saidOver() || !c.nodesSwept() {
		return
	}
	c.rootDone()
}

func (c *Core) rootDone() {
	o := &c.root.out
	if !o.AllStarted { // if all have started, the dropped nodes are not part of the job
		m := c.recovery.Members()
		for _, node := range m.Dropped {
			at := int(node - m.All.First)
			c.ended(job.Parts{m.All.Slice(at, at+1)}, job.Status{Kind: job.NotRun})
		}
	}
	o.Runs = job.MergeRuns(c.finish.ends)
	if !o.AllStarted {
		nodes, _ := c.times.all(c.children)
		o.Times = slices.Collect(nodes)
	}
	o.Tally, o.MPI = *c.counted(), c.finish.mpi
	o.Truncated = c.finish.trunc + c.flow.truncated
	if o.Cause == CauseNone {
		for _, r := range o.Runs {
			if !r.Status.OK() {
				o.Code = r.Status.ExitCode()
				break
			}
		}
	}
	c.reportBlame()
	c.become(done)
	c.do(Done{*o})
}
