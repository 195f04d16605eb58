package core

import (
	"maps"
	"slices"
	"time"

	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Restarts of failed ranks (docs/dev/decisions/0020-restart.md). Package recovery decides when a rank is restarted.
// This file carries out its decisions for the ranks and links of this agent.
//
//	at the root:  Fault --> Floor to all agents --FloorSet of all--> Respawn to the rank's agent
//	at an agent:  exited --Fence--> fenced, drained --Respawn--> Refork --Respawned--> runs
//
// An agent starts nothing before all that the old start was and has left is dead, and all that it
// printed has been passed on.

// fenceMost is how long what a rank has left may take to die of SIGKILL.
const fenceMost = 2 * time.Second

// start is how far the restart of a rank of this node is.
type start struct {
	lost    bool // it has failed, and the new start has not been ordered
	fenced  bool
	drained bool
	stuck   string       // what of it cannot be killed
	wanted  wire.Respawn // Serial 0: none
}

// mayRestart reports whether a rank of this node that has exited may start again: the root decides.
func (c *Core) mayRestart(ev RankExited) bool {
	return c.job.Launch.Restarts && !ev.Status.OK() && (!ev.PMI || c.job.Launch.RestartAll) && !c.ranks.stopped && c.stage != ending
}

// lostRank makes sure that nothing of a rank is left, and tells the root. Those who wait for the rank
// wait for its next start.
func (c *Core) lostRank(rank job.Slot, f wire.Fault) {
	c.ranks.starts[c.below.Own.Index(rank)] = start{lost: true}
	c.ranks.lost++
	p := c.below.Own.Of(rank)
	p.Restart(p.Start())
	c.lookups.Joined(rank)
	c.pairs.Forget(rank)
	c.ranks.fences++
	c.do(Fence{rank, fenceMost})
	c.fault(f)
}

func (c *Core) rankFenced(ev RankFenced) {
	c.ranks.fences--
	s := &c.ranks.starts[c.below.Own.Index(ev.Rank)]
	s.fenced, s.stuck = true, ""
	if len(ev.Left) > 0 {
		s.stuck = nameLeft(ev.Left)
	}
}

// setFloor takes the floor of ranks, passes it on, and tells it to the ranks of this node.
func (c *Core) setFloor(m wire.Floor) {
	if c.stage == ending || !c.floors.Take(m.Serial) {
		return
	}
	if c.wake(); m.Count == c.job.Layout.Ranks() {
		c.below.Floors.RaiseAll(m.Epoch)
	} else {
		c.below.Floors.Raise(m.First, m.Count, m.Epoch)
	}
	for rank, p := range c.below.Own.All() {
		if rank >= m.First && uint32(rank-m.First) < m.Count {
			p.Restart(job.StartOf(m.Epoch))
			c.pairs.Forget(rank)
		}
	}
	c.sendRanks(rankwire.Restarted{First: m.First, Count: m.Count, Epoch: m.Epoch, Op: m.Op})
	c.doCollectives(c.collectives.Floor(m.Op))
	c.doLookups(c.lookups.Raised(c.now, m.First, m.Count))
	c.sendDown(m)
	c.floors.Here()
}

// respawn orders ranks of this subtree to start again.
func (c *Core) respawn(m wire.Respawn) {
	span := recovery.Span{First: m.First, Count: m.Count}
	c.recall.open = c.recall.open && m.Count < c.job.Layout.Ranks()
	for i := range c.children {
		if c.children[i].hasAny(span) {
			c.send(Link(i), m)
		}
	}
	if c.forkAgain(m) {
		return
	}
	c.respawnAll(m)
	for rank := range c.below.Own.All() {
		if s := &c.ranks.starts[c.below.Own.Index(rank)]; span.Has(rank) && s.lost && c.stage != ending {
			s.wanted = m
		}
	}
}

// hasAny reports whether some of a span's ranks are of a child's subtree.
func (k *branch) hasAny(span recovery.Span) bool {
	return slices.ContainsFunc(k.part, func(p job.Part) bool {
		return p.Nodes.Base() < span.End() && span.First < p.Nodes.Base()+job.Slot(p.Nodes.Ranks())
	})
}

// restartMore does what restarts wait for: it confirms floors, and starts ranks of which nothing is
// left.
func (c *Core) restartMore() {
	if serial, news := c.floors.News(); news {
		if c.cfg.Root {
			c.doRestarts(c.restarts.Confirmed(serial))
		} else {
			c.send(Up, wire.FloorSet{Serial: serial})
		}
	}
	if c.ranks.lost == 0 || c.stage == ending {
		return
	}
	for i := range c.ranks.starts {
		s := &c.ranks.starts[i]
		if !s.lost || s.wanted.Serial == 0 || !s.fenced || !s.drained {
			continue
		}
		rank := c.below.Own.First() + job.Slot(i)
		if s.stuck != "" {
			c.send(Up, wire.Respawned{Serial: s.wanted.Serial, First: rank, Count: 1, Code: codeSelf, Cause: s.stuck})
			s.wanted.Serial = 0
			continue
		}
		s.lost, s.fenced, s.drained = false, false, false
		r := &c.ranks
		r.lost, r.alive, r.undrained = r.lost-1, r.alive+1, r.undrained+1
		r.ends = slices.DeleteFunc(r.ends, func(run job.StatusRun) bool { return run.First == rank })
		c.do(Refork{rank, job.StartOf(s.wanted.Epoch)})
	}
}

// respawned takes the outcome of a Refork.
func (c *Core) respawned(ev Respawned) {
	if ev.Code != 0 {
		c.ranks.end(ev.Rank, job.Status{Kind: job.NotRun, Code: ev.Code})
		c.ranks.undrained--
		c.rankOver(ev.Rank, true)
	}
	if c.stage == ending {
		if c.ranks.alive > 0 {
			c.ranks.stopped = true
			c.do(SignalRanks{sigTerm})
			if c.finish.killed {
				c.killRanks()
			}
		}
		return
	}
	if c.recalls() {
		if c.recall.killed = false; c.ranks.alive > 0 {
			c.do(SignalRanks{sigTerm})
		}
		return
	}
	if c.clock.stopped {
		c.do(StopRanks{})
	}
	serial := c.ranks.starts[c.below.Own.Index(ev.Rank)].wanted.Serial
	c.respawnedHere(wire.Respawned{Serial: serial, First: ev.Rank, Count: 1, Code: ev.Code, Cause: ev.Cause})
}

// respawnedBelow takes what a child's subtree says of a restart.
func (c *Core) respawnedBelow(m wire.Respawned) {
	if !c.cfg.Root {
		c.send(Up, m)
		return
	}
	if c.stage == ending {
		return
	}
	if m.Code != 0 {
		f := c.root.lost[m.First]
		f.What, f.Rank, f.Count, f.Node = wire.FaultFork, m.First, m.Count, c.job.Layout.NodeOf(m.First)
		node, _ := c.nodeAt(f.Node)
		f.Host = node.Host
		f.Cause = joined(m.Cause, "it was to start again after it had failed")
		f.Status = job.Status{Kind: job.NotRun, Code: m.Code}
		c.root.lost[m.First] = f
	}
	c.doRestarts(c.restarts.Respawned(m.Serial, recovery.Span{First: m.First, Count: m.Count}, m.Cause))
}

// usesPMI is why a rank does not start again.
const usesPMI = "it uses PMI, so it cannot be restarted alone; hint: --on-failure end, and start the job again"

// failedRank lets the director decide about a failure.
func (c *Core) failedRank(f wire.Fault) {
	of := recovery.Span{First: f.Rank, Count: f.Count}
	if f.What == wire.FaultRollback || c.job.Launch.RestartAll {
		c.rollBack(f, of, false)
		return
	}
	c.root.lost[f.Rank] = f
	c.doRestarts(c.restarts.Failed(c.now, of, true))
}

// doRestarts does what the director wants done.
func (c *Core) doRestarts(effects []recovery.Effect) {
	for _, e := range effects {
		switch e.Do {
		case recovery.Recall:
			c.recallRanks(wire.Recall{Serial: e.Serial, GraceMs: ms(c.job.Launch.Grace)})
		case recovery.Announce:
			c.setFloor(wire.Floor{
				Serial: e.Serial, Op: c.collectives.NextFloor(), First: e.Span.First, Count: e.Span.Count, Epoch: e.Epoch,
			})
		case recovery.Start:
			c.respawn(wire.Respawn{Serial: e.Serial, First: e.Span.First, Count: e.Span.Count, Epoch: e.Epoch})
		case recovery.Report:
			c.do(Report{Restarting{Fault: c.root.lost[e.Of.First], All: e.Span != e.Of, Number: e.Number}})
		case recovery.GiveUp:
			f := c.root.lost[e.Of.First]
			if f.What != wire.FaultFork {
				f.Cause = joined(f.Cause, e.Why)
			}
			c.endFor(f)
		}
	}
}

// joined is two parts of a cause.
func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// restartLies says what of ranks that are to be restarted cannot be.
func (c *Core) restartLies(first job.Slot, count uint32) string {
	return lieIf(!c.job.Launch.Restarts || uint64(first)+uint64(count) > uint64(c.job.Layout.Ranks()),
		"of no ranks, or that nobody wants")
}

// lostForGood forgets restarts of ranks that are lost with their node.
func (c *Core) lostForGood(ranks rankwire.SlotSpans) {
	for s := range ranks.All() {
		c.restarts.Lost(recovery.Span{First: s.First, Count: s.Count})
	}
	maps.DeleteFunc(c.root.replacing, func(_ job.NodeIndex, r *replacement) bool {
		return covers(ranks, r.span.First)
	})
}
