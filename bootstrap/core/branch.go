package core

import (
	"fmt"
	"slices"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// happen passes the event e to the state machine of child l and performs the actions that it returns. cause is the
// Event or the message that led to e. Some actions use its contents.
func (c *Core) happen(l Link, e child.Event, cause any) {
	k := &c.children[l]
	if why := k.Cannot(e); c.cfg.Check && why != "" {
		panic(fmt.Sprintf("child %d, %v, event %#x: %s", l, k.Child, e, why))
	}
	for _, a := range k.Step(e) {
		c.act(l, a, cause)
	}
}

// act performs the action a for child l, whose state has already changed. cause is as in happen.
func (c *Core) act(l Link, a child.Action, cause any) {
	switch k := &c.children[l]; a {
	case child.OpenSession:
		c.openSession(l)
	case child.FreeSlot:
		c.starts.inFlight--
	case child.SendLaunch:
		c.sendLaunch(l, cause.(ChildUp))
	case child.SendStanding:
		c.sendStanding(l)
	case child.SendResume:
		k.life, k.linked, k.credit = life{received: c.now}, c.now, c.flow.window
		c.send(l, wire.Resume{Credit: uint32(c.flow.window)})
		if c.stage == ending {
			c.send(l, wire.End{Signal: sigTerm, GraceMs: ms(max(c.finish.killAt-c.now, 0))})
		}
	case child.SendMissed:
		c.sendMissed(l, cause.(wire.State))
	case child.SendEnd:
		c.send(l, cause.(wire.End))
	case child.SendOver:
		c.send(l, wire.End{})
	case child.SendEnter:
		m := cause.(wire.Enter)
		c.below.Rest(l, false)
		c.collectives.Enter(l, m.Op)
		c.send(l, m)
	case child.Close:
		c.do(CloseLink{l})
	case child.ReturnNodes:
		c.returnNodes(l, cause.(ChildFailed))
	case child.YieldNodes:
		k.part = nil
	case child.KeepPlace:
		c.perform(c.tools.ChildEnded(l, false))
		c.below.Rest(l, false)
		c.tellRecovery(recovery.ChildVacant{Child: l})
	case child.TakePlace:
		c.takePlace(l)
	case child.LeavePlace:
		c.below.End(l, false)
		c.finish.childrenEnded++
	case child.Rejoin:
		c.rejoin(l)
	case child.AdoptBelow:
		c.adoptBelow(l)
	case child.NoteLoss:
		k.loss, k.heard = cause.(LinkLost), k.received
		c.perform(c.tools.ChildEnded(l, false))
	case child.NoteFailure: // it is unknown when the agent was lost
		k.loss = LinkLost{Link: l, Cause: recovery.Joined(k.loss.Cause, endOf(cause)), Tail: cause.(ChildFailed).Tail}
		k.heard = c.now
	case child.CountReady:
		m := cause.(wire.Ready)
		c.times.markChild(k, job.ReadyReceived, c.now)
		c.starts.reported++
		c.progress(k)
		c.starts.up += m.Up
		c.starts.failed += m.Failed
	case child.CountFailed:
		c.starts.reported++
		c.starts.failed += uint32(k.part.Len())
	case child.AddTally:
		c.tally.Add(cause.(rankwire.Tally).Of)
	case child.AddEnds:
		c.addEnds(k, cause.(wire.Exit))
	case child.AddNotRun:
		c.ended(k.part, job.Status{Kind: job.NotRun})
	case child.AddLost:
		c.ended(k.part, job.Status{Kind: job.Lost})
	case child.Remove:
		c.remove(l)
	case child.TellFault: // the loss is reported even while the job ends, because it may have caused other failures
		ev := cause.(LinkLost)
		c.fault(wire.Fault{
			What: wire.FaultLost, Node: k.head.First, Nodes: uint32(k.part.Len()), Host: k.host(),
			Parent: c.cfg.Host, Cause: ev.Cause, Tail: ev.Tail, SilentMs: c.silence(c.now - k.received),
		})
	case child.TellUnplaced:
		c.replaced(wire.Replaced{Number: k.number, Node: k.head.First, Cause: endOf(cause)})
	case child.TellLeft:
		c.reportToUser(rankwire.Notice{Host: c.cfg.Host, Text: fmt.Sprintf(
			"the agent on %s, which had left the job, was lost: %s", k.host(), endOf(cause))})
	case child.CheckGrown:
		c.grown()
	case child.CancelGrowth:
		c.cancelGrowth(k.host(), cause)
	case child.Orphan:
		if !c.cfg.Root && c.stage == running {
			c.do(CloseLink{Up})
			c.orphaned(c.recovery.Relaunches())
		}
	}
}

// endOf returns the reason for the end of a session or link. cause is a ChildFailed or a LinkLost.
func endOf(cause any) string {
	if f, ok := cause.(ChildFailed); ok {
		return f.Phase + ": " + f.Cause
	}
	return cause.(LinkLost).Cause
}

// childFailed handles a session to a child that could not be opened or has failed.
func (c *Core) childFailed(ev ChildFailed) {
	e := child.SessionFailed
	if c.stage == ending && c.children[ev.Child].In(child.Relinking) {
		e = child.Unjoined
	}
	c.happen(ev.Child, e, ev)
}

// lossOf returns the child.Event for a link to the child k that has ended. The event depends on the state of the job.
func (c *Core) lossOf(k *branch) child.Event {
	switch repairable := k.In(child.Settled | child.Resumed); {
	case c.stage != running:
	case k.In(child.Replacing):
		return child.SessionFailed
	case !repairable || k.In(child.Coming):
	case c.repairs():
		if _, recalled := c.recovery.RecallOpen(); recalled || c.starts.ranks == unforked || c.cfg.Root && !c.root.out.AllStarted {
			return child.LinkLost // the tree is not repaired while the ranks are being started or restarted
		}
		if c.repair.cutting || c.now-k.linked < joinAgain {
			return child.LinkAdopted
		}
		return child.LinkRejoined
	case len(k.part) == 0 && len(k.left)+len(k.leaving) > 0:
		return child.LinkLeft
	case c.job.Launch.Restarts && k.part.Len() == 1:
		return child.LinkKept
	}
	return child.LinkLost
}

// remove records that child l has ended. Operations that waited for the child continue without it.
func (c *Core) remove(l Link) {
	exited := c.children[l].In(child.HasExited)
	c.below.End(l, exited)
	c.finish.childrenEnded++
	c.doLookups(c.lookups.ChildEnded(l))
	c.doCollectives(c.collectives.Check())
	c.doBulk(c.bulk.ChildEnded())
	c.doTables(c.tables.ChildEnded())
	c.doQueries(c.queries.ChildEnded(l))
	c.perform(c.tools.ChildEnded(l, exited))
	c.doLookups(c.lookups.NoTableBelow(c.now, l))
}

// addEnds adds the exit statuses in m, which cover the ranks of the child k, to those that this agent will report.
func (c *Core) addEnds(k *branch, m wire.Exit) {
	if areAll(m.Runs, k.part) {
		c.finish.ends = slices.AppendSeq(c.finish.ends, m.Runs.All())
	} else { // the child ended before it learned which nodes were dropped, and started no rank
		c.ended(k.part, job.Status{Kind: job.NotRun})
	}
	c.finish.trunc = job.Added(c.finish.trunc, m.Truncated)
	c.finish.mpi.Add(m.MPI)
	if c.cfg.Root && len(k.part) > 0 {
		c.rootReceivedExit()
	}
}

// sendRanks sends a message to all ranks of this node that have joined the job.
func (c *Core) sendRanks(m frame.Message) {
	for rank, p := range c.below.Own.All() {
		if p.Joined() && !p.Ended() {
			c.do(SendRank{rank, m})
		}
	}
}

// sendDown sends a message to all children that have a link.
func (c *Core) sendDown(m frame.Message) {
	for i := range c.children {
		c.send(Link(i), m)
	}
}

// hasAny reports whether any rank of span is in the child's subtree.
func (k *branch) hasAny(span recovery.Span) bool {
	return slices.ContainsFunc(k.part, func(p job.Part) bool {
		return p.Nodes.Base() < span.End() && span.First < p.Nodes.Base()+job.Slot(p.Nodes.Ranks())
	})
}
