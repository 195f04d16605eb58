package core

import (
	"slices"
	"time"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// The parent of an agent that is lost adopts its children (docs/dev/decisions/0021-tree-repair.md).
//
// Each agent that is joined is a new child, with a new link. What was known of the old one is
// handed on before it ends, so that look-ups and collectives never miss its nodes.

// joinLeast is how long the session to an agent that is joined may take, unless its first one was
// slow. The agent waits for as long as that, and the time in which its loss was seen.
const joinLeast = 4 * time.Second

// joinAgain is the minimum lifetime of a link that JoinChild has opened. If the link ends earlier, this agent does not
// try to join the child again.
const joinAgain = time.Second

// rejoin opens a new session to the agent of a child whose link has ended, because the agent may still run. It adds a
// new child for the session, which takes over the nodes of the old child.
func (c *Core) rejoin(from Link) {
	k := c.children[from]
	n := c.join(branch{
		Child: child.New(child.Rejoining), head: k.head, part: k.part, before: k.before, local: k.local, key: k.key,
		below: k.below, loss: k.loss, heard: k.heard, session: k.session,
	})
	c.handOn(from, []Link{n}, nil)
	c.startJoin(n)
}

// join adds a child that is an agent of the job already.
func (c *Core) join(k branch) Link {
	k.planned = k.head
	c.children = append(c.children, k)
	c.below.Adopt()
	return Link(len(c.children) - 1)
}

func (c *Core) startJoin(l Link) {
	k := &c.children[l]
	k.started = c.now
	c.do(JoinChild{
		Child: l, Node: k.head.Nodes.At(0), Local: k.local, Most: recovery.Patience(joinLeast, k.session), Key: k.key,
		Level: uint32(c.level),
	})
}

// handOn lets children stand for one that ends, but for the nodes that are lost with it.
func (c *Core) handOn(from Link, to []Link, lost job.Parts) {
	k := &c.children[from]
	for _, l := range to {
		c.collectives.Took(l, from)
		c.bulk.Took(l, from)
		c.tables.Took(l, from)
		c.lookups.Took(l)
		c.children[l].held = k.held
	}
	k.part = lost
	if c.below.Routed() {
		c.below.Route(c.partsOf)
	}
	c.lookups.Moved(from)
	if in := &c.input; slices.Contains(in.children, from) {
		in.children = slices.DeleteFunc(in.children, func(l Link) bool { return l == from })
		for _, l := range to {
			if c.hasReaders(l) && !c.children[l].In(child.Lost) {
				in.children = append(in.children, l)
			}
		}
	}
	c.remove(from)
	c.ended(lost, job.Status{Kind: job.Lost})
}

// adoptBelow gives up a child, and adopts what it had below it.
func (c *Core) adoptBelow(from Link) {
	k := c.children[from]
	lost, to := k.part, []Link(nil)
	for _, b := range k.below {
		if head := job.Parts(b.Parts).Within(b.Head, b.Head+1); k.knowsBelow() && len(head) == 1 {
			for _, p := range b.Parts {
				lost = lost.Without(p.First, p.End())
			}
			to = append(to, c.join(branch{
				Child: child.New(child.Joining), head: head[0], part: b.Parts, local: c.here(head[0]) == 0,
				key: b.Key, loss: k.loss, session: k.session,
			}))
		}
	}
	places, gone := c.placesOf(k, lost)
	c.handOn(from, append(slices.Clone(to), places...), gone)
	f := wire.Fault{
		What: wire.FaultLost, Node: k.head.First, Nodes: 1, Host: k.host(), Parent: c.cfg.Host, Cause: k.loss.Cause,
		Tail: k.loss.Tail, SilentMs: c.silence(c.now - k.heard),
	}
	if len(places) == 0 {
		if len(to) == 0 {
			f.Nodes = uint32(max(lost.Len(), 1))
		}
		for _, p := range gone { // ranks of other nodes may wait for the ranks of p
			c.tellRecovery(recovery.RanksLost{Ranks: recovery.Span{First: p.Nodes.Base(), Count: p.Nodes.Ranks()}})
		}
		c.reportLost(f)
	}
	for _, l := range places {
		f.Node, f.Host = c.children[l].head.First, c.children[l].host()
		c.reportLost(f)
	}
	c.sendBelow()
	for _, l := range to {
		c.startJoin(l)
	}
}

// sendMissed sends child l, which has joined after a JoinChild, the messages that it missed while it had no parent. m
// is the State that the child has sent. It says which messages the child has received.
func (c *Core) sendMissed(l Link, m wire.State) {
	k, r := &c.children[l], &c.repair
	k.below = nil
	if r.membership != nil && !m.Begun {
		c.send(l, *r.membership)
	}
	for _, number := range r.signals.After(m.Signals) {
		c.send(l, wire.Signal{Number: number})
	}
	c.doCollectives(c.collectives.ReleaseAgain(l, m.Released))
	for _, f := range r.floors {
		if f.Serial > m.Floor {
			c.send(l, f)
		}
	}
	for _, s := range r.respawns {
		if s.Serial > m.Respawn && k.hasAny(recovery.Span{First: s.First, Count: s.Count}) {
			c.send(l, s)
		}
	}
	if recall, open := c.recovery.RecallOpen(); open {
		c.send(l, recall)
	}
	if known := c.recovery.Lost(); known.Len() > 0 {
		c.send(l, rankwire.Failures{Ranks: known})
	}
	c.replaceAgain(l)
	if m.Replaces > 0 { // its earlier parent may not have reported the replacement
		c.replaced(wire.Replaced{Number: m.Replaces, Node: k.head.First})
	}
	c.doLookups(c.lookups.AskAgain(c.now, l))
	c.doBulk(c.bulk.CallAgain(l))
	c.doTables(c.tables.CallAgain(l))
	c.inputAgain(l, m)
}

// inputAgain sends the standard input that a child has not received.
func (c *Core) inputAgain(l Link, m wire.State) {
	k := &c.children[l]
	k.room = inputWindow - int(min(m.Held, inputWindow))
	if !slices.Contains(c.input.children, l) {
		return
	}
	if m.Input == wire.NoInput {
		c.input.children = slices.DeleteFunc(c.input.children, func(o Link) bool { return o == l })
		return
	}
	missed, kept := c.repair.input.After(m.Input)
	if !kept {
		c.cut(l, "it has missed more of standard input than is kept")
		return
	}
	for _, in := range missed {
		k.room -= len(in.Data)
		c.send(l, in)
	}
}

// childBelow records a child of child l, which l has named in a Below frame. l sends one such frame for each of its
// children.
func (c *Core) childBelow(l Link, m wire.Below) {
	k := &c.children[l]
	if k.knowsBelow() {
		k.below = nil
	}
	k.below = append(k.below, m)
}

// knowsBelow reports whether the child has named all its children. Its Below frame for the last of them has Left 0.
func (k *branch) knowsBelow() bool { return len(k.below) > 0 && k.below[len(k.below)-1].Left == 0 }

// belowLies says what of a child's children cannot be.
func (c *Core) belowLies(k *branch, m wire.Below) string {
	for _, p := range m.Parts {
		if k.part.Within(p.First, p.End()).Len() != p.Nodes.Len() {
			return "of another's nodes"
		}
	}
	return lieIf(!c.repairs() || !k.knowsBelow() && len(k.below) >= k.part.Len(), "that nobody wants")
}

// sendBelow tells the parent which children this agent has, so that it can adopt them.
func (c *Core) sendBelow() {
	if !c.repairs() || c.cfg.Root || !c.starts.readied {
		return
	}
	var set []wire.Below
	for i := range c.children {
		k := &c.children[i]
		if len(k.part) == 0 || len(k.part) > wire.MaxBelow ||
			k.In(child.Exited|child.Gone|child.Lost|child.Opening|child.Launching) {
			continue
		}
		set = append(set, wire.Below{Key: k.key, Head: k.head.First, Parts: k.part})
	}
	if len(set) == 0 {
		set = []wire.Below{{}}
	}
	for i, m := range set {
		m.Left = uint32(len(set) - 1 - i)
		c.send(Up, m)
	}
}

// hasReaders reports whether ranks of a child read standard input.
func (c *Core) hasReaders(l Link) bool {
	return slices.ContainsFunc(c.children[l].part, func(p job.Part) bool { return c.reads(p.Nodes.Base(), p.Nodes.Ranks()) })
}

// reportLost reports f, the loss of nodes, which the job survives, to the root.
func (c *Core) reportLost(f wire.Fault) {
	if c.cfg.Root {
		c.nodeLost(f, true)
		return
	}
	c.ownReport(f, true)
}

// moveBelow changes the node indices in k.below after nodes were dropped. move maps an old Part to the new one.
func (k *branch) moveBelow(move func(job.Part) job.Part) {
	for i := range k.below {
		b := &k.below[i]
		for _, p := range b.Parts {
			if b.Head >= p.First && b.Head < p.End() {
				b.Head = move(p.Slice(int(b.Head-p.First), int(b.Head-p.First)+1)).First
				break
			}
		}
		var parts job.Parts
		for _, p := range b.Parts {
			parts = parts.Add(move(p))
		}
		b.Parts = parts
	}
}

// chunkBelow takes output of a child's subtree. The root has each byte once.
func (c *Core) chunkBelow(from Link, m wire.Chunk) {
	k, out := &c.children[from], m.Output
	k.credit -= len(out.Data)
	one := chunk{from: from, rank: out.Rank, stream: out.Stream, data: out.Data, at: m.At}
	if c.cfg.Root {
		known, missing := c.repair.streams.Fresh(recovery.Stream{Rank: out.Rank, Number: out.Stream}, m.At, len(out.Data))
		c.finish.trunc = job.Added(c.finish.trunc, missing)
		if one.data, one.known = out.Data[known:], known; len(one.data) == 0 {
			c.giveBack(one)
			return
		}
	}
	c.flow.push(one)
}
