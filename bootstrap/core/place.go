package core

import (
	"fmt"
	"maps"
	"slices"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// The place of a lost agent is a child without a link, in the state Lost of docs/dev/children.md. It represents the
// node of the lost agent. Messages to its ranks wait until a new agent replaces the lost one. The root chooses the host
// of the new agent (package recovery) and sends a Replace. The parent of the lost agent starts the new one, so that the
// routes of all other agents to its ranks do not change. The new agent is a leaf, because in a repaired tree the parent
// has adopted the children of the lost agent.
//
//	at the parent:   lost --Replace--> the states Successor* of docs/dev/children.md --Ready--> Replaced
//	                      --Failures of its ranks--> Gone: the node will not be replaced
//	the new agent:   Launch, Standing --> Ready; Respawn --> Fork --ForkDone--> Respawned
//
// Each agent between the root and the new agent may be lost with a message that it forwards. So each agent retains the
// newest Replace of a node for children that it adopts, and the newest Replaced of a node for a new parent. A number
// identifies the order. A new agent that waits for its Respawn reports this number to an agent that adopts it.

// placesOf adds a child in the state Lost for each node of lost whose ranks may be restarted. k is the lost child. The
// result places contains the added children, and others contains the remaining nodes. placesOf adds no child if lost
// has several nodes and k has not reported the agents below it.
func (c *Core) placesOf(k branch, lost job.Parts) (places []Link, others job.Parts) {
	if !c.recovery.Relaunches() || !k.knowsBelow() && lost.Len() > 1 {
		return nil, lost
	}
	for _, p := range lost {
		for i := range p.Nodes.Len() {
			one := p.Slice(i, i+1)
			if one.Nodes.Ranks() == 0 || recovery.Covers(c.recovery.Lost(), one.Nodes.Base()) {
				others = others.Add(one)
				continue
			}
			local := k.local
			if one.First != k.head.First {
				local = c.here(one) == 0
			}
			l := c.addBranch(one, tried{}, child.Lost)
			c.children[l].local = local
			c.tellRecovery(recovery.ChildVacant{Child: l})
			places = append(places, l)
		}
	}
	return places, others
}

// dropPlaces ends the children in the state Lost whose ranks are in the given set, because these ranks will not be
// restarted. It also ends the successors that are being started for these children.
func (c *Core) dropPlaces(ranks rankwire.SlotSpans) {
	for i := range c.children {
		if k := &c.children[i]; k.In(child.Lost) && recovery.Covers(ranks, k.head.Nodes.Base()) {
			if s, ok := c.successorOf(Link(i)); ok {
				c.happen(s, child.Abandon, nil)
			}
			c.happen(Link(i), child.Abandon, nil)
		}
	}
}

// successorOf returns the child that will replace the child lost. It returns false if lost has no successor, or if the
// successor is ready already.
func (c *Core) successorOf(lost Link) (Link, bool) {
	i := slices.IndexFunc(c.children, func(k branch) bool { return k.In(child.Replacing) && k.old == lost })
	return Link(i), i >= 0
}

// replaceOnce records an order to replace a node. It returns false if this order or a newer one for the same node was
// recorded before.
func (c *Core) replaceOnce(m wire.Replace) bool {
	r := &c.repair
	if r.replaces[m.Part.First].Number >= m.Number {
		return false
	}
	if r.replaces == nil {
		r.replaces = map[job.NodeIndex]wire.Replace{}
	}
	r.replaces[m.Part.First] = m
	return true
}

// replaceAgain sends an adopted child the newest order for each replaced node below the child. The lost agent that was
// the parent of the child may not have forwarded these orders.
func (c *Core) replaceAgain(l Link) {
	for _, node := range slices.Sorted(maps.Keys(c.repair.replaces)) {
		if k := &c.children[l]; k.hasNode(node) && k.head.First != node {
			c.send(l, c.repair.replaces[node])
		}
	}
}

// spokePMI handles the information that a rank of this node uses PMI. If this agent has replaced a lost one, spokePMI
// reports a failure, which ends the job, because PMI does not support such a restart. Only the first call reports it.
func (c *Core) spokePMI() {
	if c.repair.number == 0 || !c.recovery.Relaunches() || c.starts.ranks == unforked || c.stage == ending || c.repair.refused {
		return
	}
	c.repair.refused = true
	c.fault(wire.Fault{
		What: wire.FaultRank, Node: c.ranks.index, Nodes: 1, Rank: c.below.Own.First(), Count: 1, Awaited: true,
		Status: exitStatus(1), Host: c.cfg.Host, Parent: c.cfg.Host,
		Cause: fmt.Sprintf("its node was lost and it has started again on %s", c.cfg.Host),
	})
}

// replaceBelow handles an order to replace a node. If the node is that of a lost child, it starts a new agent
// for the node, unless this order was handled before. Otherwise it forwards the order to the child whose subtree
// contains the node.
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
			c.send(Link(i), m)
			return
		}
	}
	if fresh {
		c.replaced(wire.Replaced{Number: m.Number, Node: node, Cause: "its parent has not lost it"})
	}
}

// startReplacement adds a child as the successor of the lost child old, and opens the session that starts its agent.
func (c *Core) startReplacement(old Link, m wire.Replace) {
	part, where := m.Part, &c.children[old]
	own, local := part.Nodes.At(0).Host == where.host(), where.local
	l := c.addBranch(part, tried{spare: true}, child.SuccessorStarting)
	k := &c.children[l]
	k.local = k.local || own && local
	k.old, k.number = old, m.Number
	c.bulk.Took(l, old)
	c.tables.Took(l, old)
	c.lookups.Took(l)
	c.starts.next = len(c.children)
	c.openSession(l)
}

// sendStanding sends a successor the present state of the job, because earlier messages were sent to the lost agent. No
// rank of the successor runs, so it counts as having answered the newest Recall.
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

// stand handles the message m, which contains the present state of the job. The parent sends it to this agent, which
// has been started to replace a lost one.
func (c *Core) stand(m wire.Standing) {
	r := &c.repair
	r.number, r.respawn, r.inputs = m.Number, m.Serial, wire.NoInput // restarted ranks get no input
	r.reports.Begin(m.Number << 16)
	r.signals.Begin(m.Signals)
	c.tellRecovery(recovery.Order{Msg: m})
	c.doCollectives(c.collectives.Floor(m.Op))
}

// standingLies returns the reason that m is invalid, or "".
func (c *Core) standingLies(m wire.Standing) string {
	ranks := c.job.Layout.Ranks()
	return lieIf(!c.job.Launch.Restarts || c.starts.ranks != unforked || len(c.children) > 0 || c.repair.number > 0 || m.Number == 0 ||
		m.Number > recovery.MaxReplaced || len(m.Floors) > 0 && uint32(m.Floors[len(m.Floors)-1].Rank) >= ranks,
		"of no ranks, or that nobody wants")
}

// takePlace lets the ready successor l replace its lost child: messages to the node now go to l. It reports this to the
// root.
func (c *Core) takePlace(l Link) {
	k := &c.children[l]
	c.happen(k.old, child.Succeeded, nil)
	c.below.Route(c.partsOf)
	c.lookups.Moved(k.old)
	c.doLookups(c.lookups.AskAgain(c.now, l))
	c.doBulk(c.bulk.ChildEnded())
	c.doTables(c.tables.ChildEnded())
	c.replaced(wire.Replaced{Number: k.number, Node: k.head.First})
	c.sendBelow()
}
