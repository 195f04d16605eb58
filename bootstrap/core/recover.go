package core

import (
	"ibrun/bootstrap/core/lookup"
	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// tellRecovery passes an event to the state machine of package recovery, and performs the resulting effects.
func (c *Core) tellRecovery(ev recovery.Event) {
	for _, e := range c.recovery.Step(c.now, ev) {
		switch e := e.(type) {
		case recovery.Send:
			c.send(e.To, e.Msg)
		case recovery.SendDown:
			c.sendDown(e.Msg)
		case recovery.SendRanks:
			c.sendRanks(e.Msg)
		case recovery.PassRespawn:
			for i := range c.children {
				if c.children[i].hasAny(recovery.Span{First: e.Order.First, Count: e.Order.Count}) {
					c.send(Link(i), e.Order)
				}
			}
		case recovery.Fence:
			c.do(Fence{e.Rank, recovery.FencePatience})
		case recovery.EmptyNode:
			c.do(EmptyNode{recovery.FencePatience})
		case recovery.Terminate:
			c.do(SignalRanks{sigTerm})
		case recovery.Renew:
			c.do(Renew{Job: c.job, Node: c.ranks.node, Index: c.ranks.index, Op: c.collectives.FloorOp()})
		case recovery.Refork:
			c.ranks.restart(e.Rank)
			c.below.Own.Alive++
			c.below.Own.Undrained++
			c.do(Refork{e.Rank, e.Start})
		case recovery.StartNode:
			c.fork()
		case recovery.Forget:
			c.lookups.Joined(e.Rank)
			c.pairs.Forget(e.Rank)
		case recovery.ForgetReports:
			c.ranks.reported, c.ranks.awaited = 0, false
		case recovery.Wake:
			c.wakeAt(e.At)
		case recovery.Awake:
			c.root.waitAt = 0
		case recovery.Raise:
			c.raise(e.Floor)
		case recovery.GiveUpPlaces:
			c.dropPlaces(e.Ranks)
		default:
			c.recoverRoot(e)
		}
	}
}

// recoverRoot performs an effect that the recovery machine returns only at the root.
func (c *Core) recoverRoot(e recovery.Effect) {
	switch e := e.(type) {
	case recovery.Announce:
		c.tellRecovery(recovery.Order{Msg: wire.Floor{
			Serial: e.Serial, Op: c.collectives.NextFloor(), First: e.Span.First, Count: e.Span.Count, Epoch: e.Epoch,
		}})
	case recovery.Restarting:
		c.do(Report{Restarting(e)})
	case recovery.ForgetNames:
		c.names = lookup.NewNames(c.cfg.HasSpawner)
	case recovery.EndJob:
		c.endFor(e.Fault)
	case recovery.LoseNode:
		c.blame(e.Fault, weightOf(e.Fault))
		if c.root.out.Fault != e.Fault && c.stage != ending {
			c.reportBlame()
			c.do(Report{e.Fault})
		}
	case recovery.Notice:
		c.reportToUser(e.Notice)
	case recovery.PlaceAgent:
		c.replaceBelow(e.Order)
	case recovery.SweepNode:
		c.do(SweepNode(e))
	case recovery.EndQuietJob:
		c.end(wire.End{GraceMs: ms(c.job.Launch.Grace)})
	}
}

// raise performs the effect recovery.Raise. The Floor m announces a restart of ranks. raise applies it to connections,
// collectives and look-ups, and sends it to the ranks of this node and to the children.
func (c *Core) raise(m wire.Floor) {
	for rank := range c.below.Own.All() {
		if rank >= m.First && uint32(rank-m.First) < m.Count {
			c.pairs.Forget(rank)
		}
	}
	c.sendRanks(rankwire.Restarted{First: m.First, Count: m.Count, Epoch: m.Epoch, Op: m.Op})
	c.doCollectives(c.collectives.Floor(m.Op))
	c.doLookups(c.lookups.Raised(c.now, m.First, m.Count))
	c.sendDown(m)
}

// respawned handles the result of the Refork of one rank of this node.
func (c *Core) respawned(ev Respawned) {
	if ev.Code != 0 {
		c.endRank(ev.Rank, job.Status{Kind: job.NotRun, Code: ev.Code})
		c.below.Own.Undrained--
		c.rankOver(ev.Rank, true)
	}
	if c.stage == ending {
		c.endForked()
		return
	}
	if !c.recovery.Recalling() && c.clock.stopped {
		c.do(StopRanks{})
	}
	c.tellRecovery(recovery.RankRespawned(ev))
}

// endForked ends ranks of this node that have just been started although the job is ending.
func (c *Core) endForked() {
	if c.below.Own.Alive > 0 {
		c.ranks.fate = max(c.ranks.fate, toldToEnd)
		c.do(SignalRanks{sigTerm})
		if c.finish.killed {
			c.killRanks()
		}
	}
}

// childRests handles the message m from a child, which means that no rank of the child's subtree runs.
func (c *Core) childRests(l Link, m wire.Rest) {
	if m.Serial != c.recovery.Floor() {
		return // the child sent m before it received the newest floor, so its ranks may have been restarted since
	}
	c.below.Rest(l, true)
	c.doCollectives(c.collectives.Check())
	if c.cfg.Root {
		c.rootReceivedExit()
	}
}

// rests reports whether this agent must not exit yet, because ranks of its subtree may be restarted. In that case it
// also passes a Quiet to the recovery machine. It is called when no rank of this node runs and all output is forwarded.
func (c *Core) rests() bool {
	rests := c.recovery.Rests()
	if rests {
		c.tellRecovery(recovery.Quiet{})
	}
	return rests
}

// restartLies returns the reason that a message about the restart of the ranks [first, first+count) is invalid, or "".
func (c *Core) restartLies(first job.Slot, count uint32) string {
	return lieIf(!c.job.Launch.Restarts || uint64(first)+uint64(count) > uint64(c.job.Layout.Ranks()),
		"of no ranks, or that nobody wants")
}

// nodeLost passes the loss of a node to the recovery machine of the root. repaired says that the parent of the lost
// agent has adopted the children of that agent.
func (c *Core) nodeLost(f wire.Fault, repaired bool) {
	c.tellRecovery(recovery.NodeLost{
		Fault: f, Repaired: repaired, Spawned: c.root.offspring.live > 0, Session: c.queue.SessionTime(),
	})
}

// replaced passes the answer to a Replace to the recovery machine. At the root, the machine handles it. Any other agent
// sends it to its parent. The answer comes from a child or from this agent itself.
func (c *Core) replaced(m wire.Replaced) { c.tellRecovery(recovery.Answer{Msg: m}) }

// nodesSwept reports whether no sweep of a node delays the end of the job any longer. It is called when all children
// have ended. A second request of the user to end the job cancels the wait for sweeps.
func (c *Core) nodesSwept() bool {
	if c.root.asked > 1 {
		return true
	}
	c.tellRecovery(recovery.Sweeping{Ends: c.finish.ends, Session: c.queue.SessionTime()})
	return c.recovery.Swept()
}

// jobSwept sends the result of a sweep of this node to the root. Then this agent ends, because the root has started it
// only for the sweep. A sweep ends processes that the job has left behind.
func (c *Core) jobSwept(ev JobSwept) {
	c.send(Up, wire.Swept{Killed: ev.Killed, Left: nameLeft(ev.Left)})
	c.become(done)
	c.do(Finish{})
}
