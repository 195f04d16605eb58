package core

import (
	"time"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/core/lookup"
	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// All ranks may start again together (docs/dev/decisions/0020-restart.md): each time one fails, or when
// one asks for it. Sessions and agents stay.
//
//	at the root:  Fault --> Recall to all agents --Recalled of all--> Floor --FloorSet of all--> Respawn
//	at an agent:  Recall: TERM --all have ended, or the grace--> EmptyNode --NodeEmptied--> empty: Recalled
//	              Respawn: Renew, and Refork of each rank --Respawned of each--> Respawned
//
// So an agent of a job that restarts ranks does not end when its own have ended: it rests until the
// root says that all have.
//
//	running --nothing of the subtree runs--> Rest --Floor, Recall--> running
//	                                              --End--> ending

// recall is how far an agent is with the order that all ranks end.
type recall struct {
	serial   uint32 // of the newest order; 0: none
	killAt   time.Duration
	emptying bool // an EmptyNode is out
	killed   bool // one has ended, and ranks that had died were not all reported then
	empty    bool // nothing of this node's ranks is left
	stuck    bool // the parent knows that something cannot be ended
	done     bool // the whole subtree is empty, and the parent knows
	open     bool // Respawn of all has not come
	again    respawning
	told     bool   // the parent has had a Rest,
	rested   uint32 // of this serial
}

// respawning is the order to start all ranks of this node again.
type respawning struct {
	serial uint32
	left   uint32 // ranks that do not run yet
}

func (c *Core) recalls() bool { return c.recall.serial > 0 && !c.recall.empty && c.stage != ending }

// recallRanks ends all ranks of the subtree; they start again.
func (c *Core) recallRanks(m wire.Recall) {
	if c.stage == ending || m.Serial <= c.recall.serial {
		return
	}
	c.recall = recall{
		again: c.recall.again, told: c.recall.told, rested: c.recall.rested,
		serial: m.Serial, killAt: c.now + time.Duration(m.GraceMs)*time.Millisecond,
		empty: !c.starts.begun || c.below.Own.Count() == 0, open: true,
	}
	c.wake()
	c.sendDown(m)
	if c.recall.empty {
		return
	}
	for i := range c.ranks.starts {
		c.ranks.starts[i] = start{lost: true}
	}
	c.ranks.lost = c.below.Own.Count()
	c.ranks.reported, c.ranks.awaited = 0, false
	if c.ranks.alive > 0 {
		c.do(SignalRanks{sigTerm})
		c.wakeAt(c.recall.killAt)
	}
}

// recalled takes the end of a rank that has been told to end.
func (c *Core) recalled(rank job.Slot) {
	p := c.below.Own.Of(rank)
	p.Restart(p.Start())
	c.lookups.Joined(rank)
	c.pairs.Forget(rank)
}

// recallMore ends what is left when all ranks have ended or the grace is over, and says so when
// nothing of the subtree runs.
func (c *Core) recallMore() {
	r := &c.recall
	if r.serial == 0 || c.stage == ending || r.done || r.stuck {
		return
	}
	if late := c.now >= r.killAt; !r.empty && !r.emptying && (c.ranks.alive == 0 || late && !r.killed) {
		r.emptying = true
		c.do(EmptyNode{fenceMost})
	} else if !r.empty && !late {
		c.wakeAt(r.killAt)
	}
	if !r.empty || c.ranks.undrained > 0 || c.ranks.fences > 0 {
		return // a fence that is not over would kill a new start
	}
	for l := range Link(len(c.children)) {
		if !c.children[l].In(child.Ended|child.Lost) && c.children[l].recalled < r.serial {
			return
		}
	}
	r.done = true
	for i := range c.ranks.starts {
		c.ranks.starts[i].fenced, c.ranks.starts[i].drained = true, true
	}
	c.tellRecalled("")
}

func (c *Core) tellRecalled(why string) {
	if c.cfg.Root {
		c.doRestarts(c.restarts.Recalled(c.recall.serial, why))
	} else {
		c.send(Up, wire.Recalled{Serial: c.recall.serial, Cause: why})
	}
}

// childRecalled takes a child's word that its subtree is empty, or cannot be.
func (c *Core) childRecalled(l Link, m wire.Recalled) {
	switch {
	case m.Serial < c.recall.serial:
	case m.Cause != "":
		c.tellRecalled(m.Cause)
	default:
		c.children[l].recalled = m.Serial
	}
}

// nodeEmptied ends an EmptyNode.
func (c *Core) nodeEmptied(ev NodeEmptied) {
	r := &c.recall
	if r.emptying = false; c.stage == ending {
		return
	}
	if len(ev.Left) > 0 {
		r.stuck = true
		c.tellRecalled("on " + c.cfg.Host + ": " + nameLeft(ev.Left))
		return
	}
	r.killed = true
	r.empty = c.ranks.alive == 0
}

// respawnAll notes that all ranks of this node start again: what served their old starts is made new.
func (c *Core) respawnAll(m wire.Respawn) {
	n := c.below.Own.Count()
	if n == 0 || c.stage == ending || m.Count < c.job.Layout.Ranks() || c.ranks.lost < n {
		return
	}
	c.recall.again = respawning{m.Serial, n}
	c.do(Renew{Job: c.job, Node: c.ranks.node, Index: c.ranks.index, Op: c.collectives.FloorOp()})
}

// respawnedHere says that a rank runs, or that all do which were to start together.
func (c *Core) respawnedHere(m wire.Respawned) {
	a := &c.recall.again
	if m.Code == 0 && a.left > 0 && m.Serial == a.serial {
		if a.left--; a.left > 0 {
			return
		}
		m.First, m.Count = c.below.Own.First(), c.below.Own.Count()
	}
	c.send(Up, m)
}

// wake ends the rest of this subtree: its ranks may start again.
func (c *Core) wake() {
	c.root.waitAt = 0
	for i := range c.children {
		c.below.Rest(Link(i), false)
	}
}

// childRests takes a child's word that nothing of its subtree runs.
func (c *Core) childRests(l Link, m wire.Rest) {
	if m.Serial != c.floors.Taken() {
		return // since then its ranks may have started again
	}
	c.below.Rest(l, true)
	c.doCollectives(c.collectives.Check())
	if c.cfg.Root {
		c.rootReceivedExit()
	}
}

// rests reports whether this subtree waits for the root's word, since all its ranks have ended and
// may start again.
func (c *Core) rests() bool {
	if c.stage != running || !c.job.Launch.Restarts {
		return false
	}
	left := 0
	for l := range Link(len(c.children)) {
		switch {
		case c.below.Ended(l):
		case !c.below.Resting(l):
			return true
		default:
			left++
		}
	}
	switch {
	case !c.cfg.Root:
		if serial := c.floors.Taken(); !c.recall.told || c.recall.rested != serial {
			c.recall.told, c.recall.rested = true, serial
			c.send(Up, wire.Rest{Serial: serial})
		}
	case left == 0:
		return false
	case c.restarts.Idle() && c.root.abortAt == 0:
		c.end(wire.End{GraceMs: ms(c.job.Launch.Grace)})
	}
	return true
}

// rollBack lets all ranks start again, because one has failed or asks for it.
func (c *Core) rollBack(f wire.Fault, of recovery.Span, lost bool) {
	c.root.lost[of.First] = f
	c.root.abort, c.root.abortAt = wire.Fault{}, 0
	why := ""
	switch {
	case c.root.offspring.live > 0:
		why = "all ranks were to start again, and jobs that they have spawned run"
	case c.repairs() && c.failures.known.Len()+c.failures.fresh.Len() > 0:
		why = "all ranks were to start again, and some are lost for good"
	}
	if why != "" {
		c.doRestarts([]recovery.Effect{{Do: recovery.GiveUp, Span: of, Of: of, Why: why}})
		return
	}
	c.doRestarts(c.restarts.FailedAll(c.now, of, recovery.Span{Count: c.job.Layout.Ranks()}, lost))
	c.names = lookup.NewNames(c.cfg.HasSpawner)
}

// abortSettle is how long an abort waits for the death of which it may be a consequence: MPI
// libraries abort when a peer is gone, and the job is to start again then.
const abortSettle = 300 * time.Millisecond

// holdAbort reports whether an abort does not end the job, or not yet.
func (c *Core) holdAbort(f wire.Fault) bool {
	switch {
	case f.What != wire.FaultAbort || !c.job.Launch.RestartAll || c.stage == ending:
		return false
	case c.restarts.Recalls():
	case c.root.abortAt == 0:
		c.root.abort, c.root.abortAt = f, c.now+abortSettle
		c.wakeAt(c.root.abortAt)
	}
	return true
}

// abortDue lets a held abort end the job.
func (c *Core) abortDue() {
	f := c.root.abort
	c.root.abort, c.root.abortAt = wire.Fault{}, 0
	if c.stage != ending {
		c.endFor(f)
	}
}

// rollbackAsked takes a rank's request that all ranks start again.
func (c *Core) rollbackAsked(rank job.Slot, text string) {
	if !c.job.Launch.Restarts || c.recalls() {
		return
	}
	c.fault(wire.Fault{
		What: wire.FaultRollback, Node: c.ranks.index, Nodes: 1, Rank: rank, Count: 1, Status: exitStatus(1),
		Host: c.cfg.Host, Parent: c.cfg.Host, Cause: text,
	})
}
