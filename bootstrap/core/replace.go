package core

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// In a job that restarts ranks a spare takes the place of a node that is lost while ranks run
// (docs/dev/decisions/0020-restart.md). Its agent is started by the parent of the lost one, so that all
// other agents find its ranks where they were. Ranks start when nothing of the old ones can run.
//
//	at the root:    Fault --> Replace to the parent --Replaced--> ready --+--> Floor, Respawn
//	                      --> a sweep, or the time --> fenced ------------+
//	at the parent:  the states Lost and Successor* of docs/dev/children.md
//	at the spare:   Launch, Standing --> Ready; Respawn --> Fork --ForkDone--> Respawned
//
// A lost agent with others below it is replaced only if the tree is repaired (relaunch.go): nobody
// knows these.

const (
	// ownEnd is how long after the last frame from its parent an agent has killed its ranks, at the
	// latest: it looks each second from 10 s on. The last frames that the two have from each other
	// differ by a heartbeat, and clocks by some of the rest.
	ownEnd = 11*time.Second + heartbeatEvery + time.Second
	// lostAfter is how long a host is silent that is taken for lost, in a job that restarts ranks. Cuts
	// of 5 s do no harm.
	lostAfter = 7 * time.Second
)

// hostLost is the cause of such a loss.
const hostLost = "its host has not answered for 7 s"

// replacement is a node whose agent is lost, at the root.
type replacement struct {
	fault   wire.Fault
	span    recovery.Span
	fenceAt time.Duration // when nothing of it can run any more, whatever a sweep says
	fenced  bool
	number  uint32 // of the newest Replace
	ordered bool   // there is one
	blind   bool   // a node that had the place before is not fenced either: a sweep does not tell of both
	ready   bool   // the new agent is
}

// replaceLost begins to replace the node of a lost agent; false: the job ends.
func (c *Core) replaceLost(f wire.Fault) bool {
	if !c.job.Launch.Restarts || c.repairs() || c.stage != running || f.Host == f.Parent ||
		uint32(f.Node) >= c.job.Layout.Nodes() || c.cfg.Policy.Spares.Len() == 0 {
		return false
	}
	first, count := c.job.Layout.SlotsOn(f.Node)
	span := recovery.Span{First: first, Count: count}
	switch {
	case f.Nodes > 1:
		c.endOfLost(f, "no spare takes its place, since agents below it are lost with it")
		return true
	case c.root.members.spares.Len() == 0:
		c.endOfLost(f, "no spare is left")
		return true
	case count == 0:
		return false
	}
	r := c.openReplacement(f, span)
	c.tellRecovery(recovery.NodeLost{Fault: f, Span: span, Spawned: c.root.offspring.live > 0})
	if c.stage == running {
		c.nextSpare(r)
	}
	return true
}

// openReplacement has a lost node looked at, and notes when nothing of it can run any more.
func (c *Core) openReplacement(f wire.Fault, span recovery.Span) *replacement {
	if c.root.replacing == nil {
		c.root.replacing = map[job.NodeIndex]*replacement{}
	}
	silent, end := time.Duration(f.SilentMs)*time.Millisecond, ownEnd
	if c.repairs() {
		end = repairEnd
	}
	r := &replacement{fault: f, span: span, fenceAt: c.now - silent + end}
	if silent >= agentTimeout {
		r.fenceAt = c.now + stuckEnd
	}
	if old := c.root.replacing[f.Node]; old != nil {
		r.blind, r.fenceAt = old.blind || !old.fenced, max(r.fenceAt, old.fenceAt)
	}
	c.root.replacing[f.Node] = r
	c.wakeAt(r.fenceAt)
	delete(c.root.sweeps.known, f.Node)
	c.sweepLost(f)
	return r
}

// nextSpare lets a spare take a place. If there is none, the job ends, unless it has a tree without
// the node.
func (c *Core) nextSpare(r *replacement) {
	s := &c.root.members
	switch {
	case s.spares.Len() > 0:
	case c.relaunches():
		r.fault.Cause = recovery.Joined(r.fault.Cause, "there is no spare for its ranks")
		delete(c.root.replacing, r.fault.Node)
		c.loseNodes(r.fault)
		return
	default:
		r.fault.Cause = recovery.Joined(r.fault.Cause, "no spare is left")
		c.endFor(r.fault)
		return
	}
	run := s.spares.Slice(0, 1).Runs()[0]
	s.spares = s.spares.Slice(1, s.spares.Len())
	if s.replaced == nil {
		s.replaced = map[job.NodeIndex]string{}
	}
	s.replaced[s.original(r.fault.Node)] = run.Host(0)
	c.reportToUser(rankwire.Notice{Host: c.cfg.Host, Text: fmt.Sprintf("spare %s takes the place of %s", run.Host(0),
		r.fault.Host)})
	c.orderReplace(r, run)
}

// original is the index that a node had before others were dropped.
func (s *members) original(index job.NodeIndex) job.NodeIndex {
	for _, d := range slices.Sorted(slices.Values(s.dropped)) {
		if d <= index {
			index++
		}
	}
	return index
}

// replaceBelow starts an agent in the place of a lost child, or passes the order on.
func (c *Core) replaceBelow(m wire.Replace) {
	if c.stage != running {
		return
	}
	node, fresh := m.Part.First, c.replaceOnce(m)
	for i := range c.children {
		k := &c.children[i]
		switch {
		case k.In(child.Lost) && k.head.First == node:
			if fresh {
				c.startReplacement(Link(i), m)
			}
			return
		case !k.In(child.Ended) && k.head.First != node && k.part.Has(node):
			c.send(Link(i), m) // when it is there
			return
		}
	}
	if fresh {
		c.replacedBelow(wire.Replaced{Number: m.Number, Node: node, Cause: "its parent has not lost it"})
	}
}

func (c *Core) startReplacement(old Link, m wire.Replace) {
	part, where := m.Part, &c.children[old]
	own, local := part.Nodes.At(0).Host == where.host(), where.local
	l := c.addBranch(part, tried{spare: true}, child.SuccessorStarting)
	k := &c.children[l]
	k.local = k.local || own && local
	k.old, k.number = old, m.Number
	c.bulk.Took(l, old)
	c.tables.Took(l, old)
	c.doLookups(c.lookups.NoTableBelow(c.now, l))
	c.starts.next = len(c.children)
	c.openSession(l)
}

// sendStanding sends a successor the present state of the job, which the lost agent had received in earlier messages.
func (c *Core) sendStanding(l Link) {
	m := c.recovery.Standing()
	m.Number, m.Signals, m.Op = c.children[l].number, c.repair.signals.Count(), c.collectives.FloorOp()
	c.tellRecovery(recovery.Answer{From: l, Msg: wire.Recalled{Serial: m.Recall}})
	c.send(l, m)
	c.doBulk(c.bulk.CallAgain(l))
	c.doTables(c.tables.CallAgain(l))
	if known := c.recovery.Lost(); c.repairs() && known.Len() > 0 {
		c.send(l, rankwire.Failures{Ranks: known})
	}
	if c.clock.stopped {
		c.send(l, wire.Signal{Number: sigTstp})
	}
}

// stand takes in how far the job is that this agent has come to.
func (c *Core) stand(m wire.Standing) {
	r := &c.repair
	r.number, r.respawn, r.inputs = m.Number, m.Serial, wire.NoInput // all orders so far were for others
	r.reports.Begin(m.Number << 16)
	r.signals.Begin(m.Signals)
	c.tellRecovery(recovery.Order{Msg: m})
	c.doCollectives(c.collectives.Floor(m.Op))
}

// standingLies says what of the state of a job cannot be.
func (c *Core) standingLies(m wire.Standing) string {
	ranks := c.job.Layout.Ranks()
	return lieIf(!c.job.Launch.Restarts || c.starts.begun || len(c.children) > 0 || c.repair.number > 0 || m.Number == 0 ||
		m.Number > mostReplaced || len(m.Floors) > 0 && uint32(m.Floors[len(m.Floors)-1].Rank) >= ranks,
		"of no ranks, or that nobody wants")
}

// takePlace replaces the lost child by its successor l, which is ready.
func (c *Core) takePlace(l Link) {
	k := &c.children[l]
	c.happen(k.old, child.Succeeded, nil)
	c.below.Route(c.partsOf)
	c.lookups.Moved(k.old)
	c.doLookups(c.lookups.AskAgain(c.now, l))
	c.doBulk(c.bulk.ChildEnded())
	c.doTables(c.tables.ChildEnded())
	c.replacedBelow(wire.Replaced{Number: k.number, Node: k.head.First})
	c.sendBelow()
}

// replacedBelow takes the outcome of a Replace.
func (c *Core) replacedBelow(m wire.Replaced) {
	if !c.cfg.Root {
		c.send(Up, m)
		return
	}
	r := c.root.replacing[m.Node]
	switch {
	case r == nil || r.number != m.Number || c.stage != running:
	case m.Cause != "":
		node, _ := c.nodeAt(m.Node)
		c.reportToUser(rankwire.Notice{Host: c.cfg.Host, Text: fmt.Sprintf("%s could not be started: %s",
			c.named(r.fault.Node, node.Host), m.Cause)})
		c.nextSpare(r)
	default:
		r.ready = true
		c.replacedMore(m.Node)
	}
}

// replacedMore lets the ranks of a node start when nothing of the old ones runs and an agent is there.
func (c *Core) replacedMore(node job.NodeIndex) {
	if r := c.root.replacing[node]; r.ready && r.fenced {
		delete(c.root.replacing, node)
		c.tellRecovery(recovery.NodeFenced{Span: r.span})
	}
}

// fenceSwept takes the outcome of a sweep of a node that is being replaced; false: it is not.
func (c *Core) fenceSwept(ev NodeSwept) bool {
	r := c.root.replacing[ev.Index]
	switch {
	case r == nil || c.stage != running:
		return false
	case ev.Left != "":
		r.fault.Cause = recovery.Joined(r.fault.Cause, ev.Left)
		c.endFor(r.fault)
	case ev.Cause == "":
		if r.fenced = r.fenced || !r.blind; !r.ordered && c.relaunches() {
			c.ownHost(r)
		}
		if r.fenced {
			c.replacedMore(ev.Index)
		}
	case !r.ordered:
		r.fault.Cause = recovery.Joined(r.fault.Cause, "nobody can look at its node: "+ev.Cause)
		c.nextSpare(r)
	}
	return true
}

// named is a host that was to take the place of a node, in words.
func (c *Core) named(node job.NodeIndex, host string) string {
	if m := &c.root.members; m.replaced[m.original(node)] == host {
		return "spare " + host
	}
	return host
}

// fenceDue takes nodes for dead that nobody could look at, when their agents have ended.
func (c *Core) fenceDue() {
	for _, node := range slices.Sorted(maps.Keys(c.root.replacing)) {
		switch r := c.root.replacing[node]; {
		case r.fenced:
		case r.fenceAt > c.now:
			c.wakeAt(r.fenceAt)
		default:
			r.fenced = true
			c.replacedMore(node)
		}
	}
}
