package core

import (
	"fmt"
	"slices"
	"strings"

	"ibrun/bootstrap/core/daemons"
	"ibrun/bootstrap/core/sessions"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Sessions of tools (docs/dev/decisions/0035-tools.md). Package sessions decides about what members say,
// package daemons about their output and ends; here is where an order goes.

// MembersOn is a host, and how many members of a session it has.
type MembersOn struct {
	Host  string
	Count uint32
}

// SessionAsked is a caller's order, at the root, as DaemonsAsked is. It is answered by SessionOpened,
// or by DaemonsOver if none is started.
type SessionAsked struct {
	ID      uint32
	On      []MembersOn // none: one on each node that has ranks
	PerRank bool        // one beside each rank of these hosts, or of all: no count means anything
	Argv    []string
	Env     []string
}

// SessionSent is what a caller sends to member 0. The caller keeps to the credit of SessionRoom.
type SessionSent struct {
	ID   uint32
	Data rankwire.ToolPiece
}

// SessionTaken says that a caller has taken data that cost N.
type SessionTaken struct{ ID, N uint32 }

// DaemonsKept lets daemons live on when their caller goes. Their output is dropped from now on.
type DaemonsKept struct{ ID uint32 }

// MemberFrame is what a member of this node says.
type MemberFrame struct {
	ID     uint32
	Member job.Slot
	Msg    frame.Message
}

// TellMember gives a frame to a member of this node.
type TellMember struct {
	ID     uint32
	Member job.Slot
	Msg    frame.Message
}

// SessionOpened tells a caller where the members of its session are, in the order of their numbers.
type SessionOpened struct {
	ID uint32
	On []MembersOn
}

// SessionReceived is a piece of what member 0 sends to a caller. The driver answers SessionTaken.
type SessionReceived struct {
	ID   uint32
	Data rankwire.ToolPiece
}

// SessionRoom lets a caller send what costs N more.
type SessionRoom struct{ ID, N uint32 }

func (SessionAsked) event()     {}
func (SessionSent) event()      {}
func (SessionTaken) event()     {}
func (DaemonsKept) event()      {}
func (MemberFrame) event()      {}
func (TellMember) effect()      {}
func (SessionOpened) effect()   {}
func (SessionReceived) effect() {}
func (SessionRoom) effect()     {}

func (c *Core) sessionEvent(ev Event) {
	switch ev := ev.(type) {
	case SessionAsked:
		c.askSession(ev)
	case SessionSent:
		c.doSessions(c.sessions.Down(c.root.daemons.of(ev.ID), ev.Data))
	case SessionTaken:
		c.doSessions(c.sessions.Down(c.root.daemons.of(ev.ID), rankwire.ToolRoom{N: ev.N}))
	case DaemonsKept:
		c.doDaemons(c.daemons.Keep(c.root.daemons.of(ev.ID)))
	case MemberFrame:
		c.doSessions(c.sessions.From(ev.ID, ev.Member, ev.Msg))
	}
}

// askSession begins a session of a caller's.
func (c *Core) askSession(ev SessionAsked) {
	if !c.mayOrder(ev.ID) {
		return
	}
	members, on, why := c.placeMembers(ev.On, ev.PerRank)
	if why != "" {
		c.refuseDaemons(ev.ID, why)
		return
	}
	id := c.ticketed(ev.ID)
	c.do(SessionOpened{ID: ev.ID, On: on})
	c.orderSession(wire.Session{ID: id, Members: wire.NewMemberSpans(members...), PerRank: ev.PerRank,
		Argv: rankwire.NewStrings(ev.Argv...), Env: rankwire.NewStrings(ev.Env...), Credit: daemons.CallerCredit})
}

// placeMembers finds the nodes of hosts; none: each node has one member, or one for each rank.
func (c *Core) placeMembers(asked []MembersOn, perRank bool) (spans []wire.MemberSpan, on []MembersOn, why string) {
	want, found := map[string]uint32{}, map[string]bool{}
	for _, a := range asked {
		if want[a.Host] += a.Count; perRank {
			want[a.Host] = 1
		}
	}
	type at struct {
		node job.NodeIndex
		MembersOn
	}
	var all []at
	for i := range c.children {
		for _, p := range c.partsOf(Link(i)) { // without nodes that may come
			for k := range p.Nodes.Len() {
				index, host := p.First+job.NodeIndex(k), c.hostOf(p, k)
				count := want[host]
				if len(asked) == 0 {
					count = 1
				}
				if !perRank {
					delete(want, host) // of nodes with one name the first has all
				} else if count > 0 {
					found[host] = true
					_, count = c.job.Layout.SlotsOn(index)
				}
				if count > 0 {
					all = append(all, at{index, MembersOn{host, count}})
				}
			}
		}
	}
	for _, a := range asked {
		if want[a.Host] > 0 && !found[a.Host] {
			return nil, nil, "the job has no host " + a.Host
		}
	}
	slices.SortFunc(all, func(a, b at) int { return int(a.node) - int(b.node) })
	total := uint64(0)
	for _, a := range all {
		if a.Count > wire.MaxMembersOnNode {
			return nil, nil, fmt.Sprintf("%s would have %d members: a node has %d at most", a.Host, a.Count, wire.MaxMembersOnNode)
		}
		total += uint64(a.Count)
		on = append(on, a.MembersOn)
		last := len(spans) - 1
		if last >= 0 && spans[last].Nodes.End() == a.node && spans[last].Each == a.Count {
			spans[last].Nodes.Count++
			continue
		}
		spans = append(spans, wire.MemberSpan{Nodes: wire.NodeSpan{First: a.node, Count: 1}, Each: a.Count})
	}
	if total == 0 || total > wire.MaxMembers {
		return nil, nil, "a session has one member at least, and 1,048,576 at most"
	}
	return spans, on, ""
}

// orderSession passes an order on, and starts the members of this node.
func (c *Core) orderSession(m wire.Session) {
	g := sessions.Group{ID: m.ID, Children: make([]job.Parts, len(c.children))}
	var shares []job.Share
	for s := range m.Members.All() {
		shares = append(shares, job.Share{Nodes: s.Nodes.Count, Ranks: s.Each})
	}
	g.Layout = job.NewLayout(shares)
	for i := range c.children {
		for _, p := range c.partsOf(Link(i)) {
			if first, count := membersOf(m, p.First, p.End()); count > 0 {
				run := job.Run{Count: 1, Ranks: count}
				g.Children[i] = append(g.Children[i], job.Part{First: p.First, Nodes: job.NewNodes(first, []job.Run{run})})
			}
		}
	}
	if c.below.Own.Count() > 0 && !c.below.Own.Left() {
		g.First, g.Count = membersOf(m, c.ranks.index, c.ranks.index+1)
	}
	order := wire.Daemons{ID: m.ID, PerRank: m.PerRank, Nodes: m.Nodes(), Argv: m.Argv, Credit: m.Credit}
	sent, start := c.openDaemons(order, &m, g.First, g.Count)
	for i := range g.Children {
		if len(g.Children[i]) > 0 && !sent[Link(i)] {
			g.Lost = append(g.Lost, Link(i))
		}
	}
	c.sessions.Open(g)
	if !c.daemons.Has(m.ID) {
		c.sessions.Close(m.ID)
		return
	}
	for k := range g.Count {
		if start.Count == 0 {
			c.doSessions(c.sessions.Exited(m.ID, g.First+job.Slot(k)))
		}
	}
}

// besideRanks reports whether a session with a member beside each rank has so many on each of its nodes,
// which the job has. That is asked for all nodes at once: an agent below would refuse it otherwise.
func (c *Core) besideRanks(m wire.Session) bool {
	if !m.PerRank {
		return true
	}
	shares, k, end := slices.Collect(c.job.Layout.Shares()), -1, job.NodeIndex(0)
	for s := range m.Members.All() { // as long as shares at most, since both are joined where they can be
		for end <= s.Nodes.First {
			k++
			end += job.NodeIndex(shares[k].Nodes)
		}
		if s.Each != shares[k].Ranks || s.Nodes.End() > end {
			return false
		}
	}
	return true
}

// membersOf are the members on the nodes [lo, hi).
func membersOf(m wire.Session, lo, hi job.NodeIndex) (first job.Slot, count uint32) {
	for s := range m.Members.All() {
		from, to := max(s.Nodes.First, lo), min(s.Nodes.End(), hi)
		if s.Nodes.End() <= lo {
			first += job.Slot(s.Nodes.Count * s.Each)
		} else if from < to {
			first += job.Slot(uint32(from-s.Nodes.First) * s.Each)
			count += uint32(to-from) * s.Each
			lo = to
		}
	}
	return first, count
}

// stringsOf are a list, in memory of their own.
func stringsOf(list rankwire.Strings) (all []string) {
	for s := range list.All() {
		all = append(all, strings.Clone(s))
	}
	return all
}

// sessionBelow takes what a child says of members.
func (c *Core) sessionBelow(from Link, m frame.Message) {
	switch m := m.(type) {
	case wire.SessionCollect:
		c.doSessions(c.sessions.CollectBelow(from, m.ID, m.Part))
	case wire.SessionPiece:
		c.doSessions(c.sessions.Up(m.ID, m.Data))
	case wire.SessionRoom:
		c.doSessions(c.sessions.Up(m.ID, rankwire.ToolRoom{N: m.N}))
	}
}

// sessionLies says what of a child's message about members cannot be true; empty: nothing.
func (c *Core) sessionLies(from Link, m frame.Message) string {
	lies := func(id uint32) string { return lieIf(id >= c.daemons.Next(), "of what was not ordered") }
	switch m := m.(type) {
	case wire.SessionCollect:
		return lies(m.ID) + c.sessions.Lie(from, m.ID, m.Part)
	case wire.SessionPiece:
		return lies(m.ID) + c.sessions.LieOfPiece(from, m.ID)
	case wire.SessionRoom:
		return lies(m.ID) + c.sessions.LieOfPiece(from, m.ID)
	}
	return ""
}

// ownsDaemon reports whether a number of an order is of a child's subtree: a member's, a node's or a
// rank's.
func (c *Core) ownsDaemon(l Link, id, number uint32) bool {
	if has, known := c.sessions.Has(l, id, number); known {
		return has
	}
	return c.children[l].hasDaemon(number)
}

// daemonsOfChildEnded looks again at what waits for the daemons of a child's subtree.
func (c *Core) daemonsOfChildEnded(l Link, exited bool) {
	c.doSessions(c.sessions.ChildEnded(l))
	c.doDaemons(c.daemons.ChildEnded(l, exited))
}

func (c *Core) doSessions(effects []sessions.Effect) {
	for i := range effects {
		switch e := &effects[i]; e.Do {
		case sessions.Collect:
			c.send(Up, wire.SessionCollect{ID: e.ID, Part: rankwire.Collect(e.Part)})
		case sessions.Release:
			c.send(e.To, wire.SessionRelease{ID: e.ID, Part: e.Part})
		case sessions.ToMember:
			c.do(TellMember{e.ID, e.Member, e.Msg})
		case sessions.Kill:
			c.do(KillDaemons{e.ID})
		case sessions.Pass:
			c.passPiece(e)
		}
	}
	clear(effects)
}

func (c *Core) passPiece(e *sessions.Effect) {
	toCaller, ticket := c.cfg.Root && e.To == Up, uint32(0)
	if toCaller {
		ticket = c.root.daemons[e.ID]
	}
	switch m := e.Msg.(type) {
	case rankwire.ToolPiece:
		if toCaller {
			c.do(SessionReceived{ID: ticket, Data: m})
		} else {
			c.send(e.To, wire.SessionPiece{ID: e.ID, Data: m})
		}
	case rankwire.ToolRoom:
		if toCaller {
			c.do(SessionRoom{ticket, m.N})
		} else {
			c.send(e.To, wire.SessionRoom{ID: e.ID, N: m.N})
		}
	}
}
