package core

import (
	"time"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/core/lookup"
	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
)

// Step applies the event ev and returns the effects, which the driver performs in this order. now is the time since an
// arbitrary fixed moment. The returned slice is valid until the next Step.
func (c *Core) Step(now time.Duration, ev Event) []Effect {
	c.now = max(now, c.now)
	c.out = c.out[:0]
	if c.stage == done {
		return nil
	}
	if f, ok := ev.(Frame); ok {
		c.life(f.From).received = c.now // the time of arrival counts even if apply delays the frame
	}
	c.apply(ev)
	c.settle()
	c.arm()
	if c.cfg.Check {
		c.checkBranches()
		c.recovery.Check()
	}
	return c.out
}

// apply applies ev, or delays it until the nodes of this subtree have their final indices.
func (c *Core) apply(ev Event) {
	if c.tooEarly(ev) {
		c.early = append(c.early, ev)
		return
	}
	switch ev := ev.(type) {
	case Frame:
		c.frame(ev.From, ev.Msg)
	case Begin:
		c.begin(ev.Launch)
	case Opened:
		c.clock.up, c.clock.linked = life{received: c.now}, true
	case ChildUp:
		c.happen(ev.Child, child.SessionUp, ev)
	case ChildPhase:
		c.childPhase(ev)
	case SessionsObserved:
		c.queue.Observed(c.now, ev.Ran, c.starts.inFlight)
	case ChildFailed:
		c.childFailed(ev)
	case JoinRefused:
		c.happen(ev.Child, child.Unjoined, ev)
	case Relinked:
		c.relinked(ev)
	case LinkLost:
		c.linkLost(ev)
	case ForkDone:
		c.forkDone(ev)
	case Placed:
		c.reportToUser(ev.Placed)
	case Notice:
		c.reportToUser(rankwire.Notice{Host: c.cfg.Host, Text: ev.Text})
	case RankOutput:
		c.flow.push(chunk{
			from: Up, rank: ev.Rank, stream: ev.Stream, data: ev.Data, at: c.place(ev.Rank, ev.Stream, len(ev.Data)),
		})
	case RankExited:
		c.rankExited(ev)
	case RankDrained:
		c.rankDrained(ev.Rank)
	case RankFenced:
		c.tellRecovery(recovery.RankFenced{Rank: ev.Rank, Left: nameLeft(ev.Left)})
	case NodeEmptied:
		m := recovery.NodeEmptied{}
		if len(ev.Left) > 0 {
			m.Left = "on " + c.cfg.Host + ": " + nameLeft(ev.Left)
		}
		c.tellRecovery(m)
	case Respawned:
		c.respawned(ev)
	case RankFrame:
		c.rankFrame(ev.Rank, ev.Msg)
	case BulkRequested:
		if c.job != nil {
			c.doBulk(c.bulk.Request(Up, ev.Fence))
		}
	case BulkRead:
		c.doBulk(c.bulk.ReadDone(ev.Fence, ev.Value))
	case MPIFindings:
		if c.finish.mpi.Add(ev.MPIFindings); ev.SpokePMI {
			c.spokePMI()
		}
	case RankInputRead:
		c.rankInputRead(ev)
	case RankInputClosed:
		c.closeInput(ev.Rank)
	case Killed:
		c.outlived(ev.Left)
	case Swept:
		c.outlived(ev.Left)
		c.finish.sweep = swept
	case JobSwept:
		c.jobSwept(ev)
	case NodeSwept:
		c.tellRecovery(recovery.NodeSwept(ev))
	case ReaperLost:
		c.reaperLost()
	case EndRequested:
		c.endRequested(ev.Signal)
	case NodeSignal:
		c.nodeSignal(ev)
	case Tick:
		c.tick()
	case Probed:
		c.probed(ev)
	case StdinRead:
		c.stdinRead(ev)
	case Wrote:
		c.flow.credit += ev.N
	case JobAnswered:
		c.toRank(ev.Rank, rankwire.JobSpawned{Rank: ev.Rank, JobID: ev.JobID, Namespace: ev.Namespace, Refused: ev.Refused})
	case JobAsked:
		c.doNames(c.names.Question(ev.Job, ev.Name))
	case JobEnded:
		c.jobEnded(ev)
	case ParentAnswered:
		c.doNames(c.names.Answered(ev.Name))
	case SinkFailed:
		c.sinkFailed(ev)
	case Interrupted:
		c.interrupted(ev.Signal)
	case Asked:
		c.asked(ev)
	case Inspected:
		c.doQueries(c.queries.Inspected(ev.ID, ev.Standings))
	case CCSAsked:
		c.ccsDown(ev.CCSRequest)
	case CCSReplied:
		c.ccsUp(ev.CCSReply)
	case ResizeAsked:
		c.resizeAsked(ev)
	case flow.DaemonsAsked, flow.DaemonsTaken, flow.DaemonsLeft, flow.DaemonsKept, flow.DaemonOutput, flow.DaemonExited,
		flow.DaemonFed, flow.DaemonInputRead, flow.DaemonInputClosed, flow.SessionAsked, flow.SessionSent,
		flow.SessionTaken, flow.MemberFrame:
		c.perform(c.tools.Step(c.toolPlace(), ev))
	}
}

// frame handles the message m, which the parent or a child has sent. If m is invalid, frame closes the link.
func (c *Core) frame(from Link, m frame.Message) {
	if from == Up {
		if !c.clock.linked {
			return // this agent has closed its link to the parent
		}
		if lie := c.parentLies(m); lie != "" {
			c.distrust(Up, m, lie)
			return
		}
		c.order(m)
		return
	}
	k := &c.children[from]
	if !k.In(child.Heard) {
		return // this agent does not wait for this child any more
	}
	if c.repeatedUp(from, m) {
		return
	}
	if lie := c.childLies(from, m); lie != "" {
		c.distrust(from, m, lie)
		return
	}
	switch m := m.(type) {
	case wire.Ready:
		c.happen(from, child.ReadyCame, m)
	case wire.Times:
		k.times.take(c.now-c.times.began, m)
	case wire.Output:
		k.credit -= len(m.Data)
		c.flow.push(chunk{from: from, rank: m.Rank, stream: m.Stream, data: m.Data})
	case wire.StdinRoom:
		k.room += int(m.N)
	case wire.Return:
		c.returned(from, m)
	case wire.Fault:
		if m.What == wire.FaultLaunch {
			k.forget(m)
		}
		c.fault(m)
	case wire.Report:
		c.reportBelow(from, m)
	case wire.Chunk:
		c.chunkBelow(from, m)
	case wire.Below:
		c.childBelow(from, m)
	case wire.State:
		c.happen(from, child.StateCame, m)
	case rankwire.Ask:
		c.doLookups(c.lookups.Ask(c.now, lookup.Neighbour(from), m))
	case rankwire.Answer:
		c.doLookups(c.lookups.Answered(m, !c.recovery.HasFloor(from)))
	case wire.FloorSet, wire.Respawned, wire.Recalled, rankwire.Failures:
		c.tellRecovery(recovery.Answer{From: from, Msg: m})
	case wire.Replaced:
		c.replaced(m)
	case wire.Rest:
		c.childRests(from, m)
	case rankwire.Collect:
		if m.What == rankwire.Barrier && m.Parcels.Len() > 0 { // PMI puts values into barriers
			c.tellRecovery(recovery.PMIUsed{})
		}
		c.doCollectives(c.collectives.JoinBelow(from, k.head.Nodes.Base(), m))
	case wire.Blocks:
		c.doLookups(c.lookups.TableBelow(c.now, from, m.Values))
	case wire.BulkFetch:
		c.doBulk(c.bulk.Request(from, m.Fence))
	case wire.BulkValues:
		c.doBulk(c.bulk.Gave(from, m.Fence, m.Values))
	case wire.TableFetch:
		c.doTables(c.tables.Request(from, m.Round))
	case wire.TableValues:
		c.doTables(c.tables.Gave(from, m.Round, m.Values))
	case rankwire.Tally:
		c.happen(from, child.TallyCame, m)
	case wire.Placed, wire.Waiting, rankwire.Notice:
		c.reportToUser(m)
	case rankwire.Name:
		c.nameUp(from, m)
	case rankwire.SpawnJob:
		c.spawnUp(from, m)
	case wire.Signal:
		if m.Number == sigTstp {
			k.held = c.clock.stops
		} else {
			c.signalUp(m.Number)
		}
	case wire.Reply:
		c.doQueries(c.queries.Answered(from, m.ID, m.Standings))
	case wire.DaemonOutput, wire.DaemonsEnded, wire.DaemonRoom, wire.SessionCollect, wire.SessionPiece, wire.SessionRoom:
		c.perform(c.tools.FromChild(from, m))
	case wire.CCSReply:
		c.ccsUp(m)
	case wire.Departed:
		k.left, k.leaving = k.left.Add(k.leaving...), nil
	case rankwire.Follow:
		c.followUp(m)
	case wire.Exit:
		e := child.ExitCame
		if c.repairs() {
			e = child.ExitStays
		}
		c.happen(from, e, m)
	}
}

// settle continues each operation that has been waiting for a condition, if the last event has met this condition.
func (c *Core) settle() {
	if c.stage == idle {
		return
	}
	c.startMore()
	c.checkReady()
	c.applyEarly()
	c.heldTools()
	c.tellRecovery(recovery.Settle{})
	c.pumpOutput()
	c.pumpInput()
	c.checkDeparted()
	c.growEnds()
	c.checkExit()
	c.checkStop()
}
