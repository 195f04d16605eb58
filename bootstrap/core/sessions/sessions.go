// Package sessions decides for one agent about the members of sessions: daemons of a tool that know
// each other (docs/dev/decisions/0035-tools.md). Their collectives are those of package collective,
// over a subtree of their own; data between the front end and member 0 is passed on. How members
// start and end is the business of package daemons.
package sessions

import (
	"ibrun/bootstrap/core/collective"
	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Do is what an effect asks for.
type Do uint8

const (
	Collect  Do = iota // put Part on the link to the parent
	Release            // put Part on the link To
	ToMember           // give Msg to Member, of this node
	Pass               // put Msg, a ToolPiece or ToolRoom, on the link To; at the root Up is the caller
	Kill               // kill the members of this node: one has broken the rules
)

// Effect is something that the core must do.
type Effect struct {
	Do     Do
	ID     uint32
	To     subtree.Link
	Member job.Slot
	Part   rankwire.Release
	Msg    frame.Message
}

// Group is the members of a session, and where they are. Slots are the numbers of members.
type Group struct {
	ID       uint32
	Layout   job.Layout // of nodes that have members
	First    job.Slot   // of those of this node
	Count    uint32
	Children []job.Parts    // the members of each child's subtree
	Lost     []subtree.Link // children that cannot take part
}

// Sessions are those that an agent takes part in.
type Sessions struct {
	root bool
	open []*session // a few
	out  []Effect
}

type session struct {
	id          uint32
	below       subtree.Subtree
	collectives collective.Collectives
	credit      uint32 // of member 0, if it is here
}

// New makes the sessions of an agent.
func New(root bool) Sessions { return Sessions{root: root} }

func (s *Sessions) done() []Effect {
	out := s.out
	s.out = s.out[:0]
	return out
}

func (s *Sessions) find(id uint32) *session {
	for _, one := range s.open {
		if one.id == id {
			return one
		}
	}
	return nil
}

// Open takes part in a session.
func (s *Sessions) Open(g Group) {
	one := &session{id: g.ID, credit: rankwire.ToolCredit}
	one.below.Root, one.below.Layout = s.root, g.Layout
	one.below.Own.Open(g.First, g.Count)
	for range g.Children {
		one.below.Adopt()
	}
	for i := range g.Children {
		if len(g.Children[i]) == 0 {
			one.below.End(subtree.Link(i), true)
		}
	}
	for _, l := range g.Lost {
		one.below.End(l, false)
	}
	one.below.Route(func(l subtree.Link) job.Parts { return g.Children[l] })
	one.collectives = collective.New(&one.below, nil)
	one.collectives.Noun = "member"
	s.open = append(s.open, one)
}

// Close ends a session: none of its members is left here or below.
func (s *Sessions) Close(id uint32) {
	for i, one := range s.open {
		if one.id == id {
			s.open = append(s.open[:i], s.open[i+1:]...)
			return
		}
	}
}

func (s *Sessions) collective(one *session, effects []collective.Effect) {
	for i := range effects {
		switch e := &effects[i]; e.Do {
		case collective.Collect:
			s.out = append(s.out, Effect{Do: Collect, ID: one.id, Part: e.Part})
		case collective.ReleaseChild:
			if !one.below.Ended(e.To) {
				s.out = append(s.out, Effect{Do: Release, ID: one.id, To: e.To, Part: e.Part})
			}
		case collective.ReleaseRank:
			s.out = append(s.out, Effect{Do: ToMember, ID: one.id, Member: e.Rank, Msg: e.Part})
		}
	}
	clear(effects)
}

// From takes what a member of this node says.
func (s *Sessions) From(id uint32, member job.Slot, m frame.Message) []Effect {
	one := s.find(id)
	if one == nil || !one.below.Own.Has(member) || one.below.Own.Of(member).Ended() {
		return nil
	}
	switch m := m.(type) {
	case rankwire.Collect:
		s.collective(one, one.collectives.Join(member, m))
	case rankwire.Finalize:
		one.below.Own.Of(member).End(false)
		s.collective(one, one.collectives.Check())
	case rankwire.ToolPiece:
		if member != 0 || m.Cost() > one.credit {
			s.out = append(s.out, Effect{Do: Kill, ID: id})
			break
		}
		one.credit -= m.Cost()
		s.out = append(s.out, Effect{Do: Pass, ID: id, To: subtree.Up, Msg: m})
	case rankwire.ToolRoom:
		if member == 0 {
			s.out = append(s.out, Effect{Do: Pass, ID: id, To: subtree.Up, Msg: m})
		}
	default:
		s.out = append(s.out, Effect{Do: Kill, ID: id})
	}
	return s.done()
}

// Exited takes the end of a member of this node.
func (s *Sessions) Exited(id uint32, member job.Slot) []Effect {
	if one := s.find(id); one != nil && one.below.Own.Has(member) {
		one.below.Own.Of(member).Exit(false)
		s.collective(one, one.collectives.Check())
	}
	return s.done()
}

// EndedBelow takes the end of all members of a child's subtree.
func (s *Sessions) EndedBelow(l subtree.Link, id uint32) []Effect {
	if one := s.find(id); one != nil && one.has(l) {
		one.below.End(l, true)
		s.collective(one, one.collectives.Check())
	}
	return s.done()
}

// ChildEnded is EndedBelow for all sessions.
func (s *Sessions) ChildEnded(l subtree.Link) []Effect {
	for _, one := range s.open {
		if one.has(l) {
			one.below.End(l, false)
			s.collective(one, one.collectives.Check())
		}
	}
	return s.done()
}

// has reports whether a child was there when the session began.
func (one *session) has(l subtree.Link) bool { return int(l) < one.below.Children() }

// CollectBelow takes the part of a child's subtree.
func (s *Sessions) CollectBelow(l subtree.Link, id uint32, m rankwire.Collect) []Effect {
	if one := s.find(id); one != nil && one.has(l) {
		head := job.Slot(0)
		if parts := one.below.Parts(l); len(parts) > 0 {
			head = parts[0].Nodes.Base()
		}
		s.collective(one, one.collectives.JoinBelow(l, head, m))
	}
	return s.done()
}

// Release takes the outcome of a collective from the parent.
func (s *Sessions) Release(id uint32, m rankwire.Release) []Effect {
	if one := s.find(id); one != nil {
		s.collective(one, one.collectives.Release(m))
	}
	return s.done()
}

// Down passes on what is for member 0, a ToolPiece or ToolRoom.
func (s *Sessions) Down(id uint32, m frame.Message) []Effect {
	one := s.find(id)
	if one == nil {
		return nil
	}
	if one.below.Own.Has(0) {
		if room, ok := m.(rankwire.ToolRoom); ok {
			one.credit += room.N
		}
		s.out = append(s.out, Effect{Do: ToMember, ID: id, Member: 0, Msg: m})
	} else if l, below := one.below.Child(0); below && !one.below.Ended(l) {
		s.out = append(s.out, Effect{Do: Pass, ID: id, To: l, Msg: m})
	}
	return s.done()
}

// Up passes on what member 0 has sent, by a child.
func (s *Sessions) Up(id uint32, m frame.Message) []Effect {
	if s.find(id) != nil {
		s.out = append(s.out, Effect{Do: Pass, ID: id, To: subtree.Up, Msg: m})
	}
	return s.done()
}

// Has reports whether a number is of a member that a child's subtree has. Known: the session is one
// that is open here.
func (s *Sessions) Has(l subtree.Link, id uint32, number uint32) (has, known bool) {
	one := s.find(id)
	if one == nil {
		return false, false
	}
	at, below := one.below.Child(job.Slot(number))
	return below && at == l, true
}

// Lie says what of a child's part cannot be; empty: nothing. One of a session that is over may be
// on its way still.
func (s *Sessions) Lie(l subtree.Link, id uint32, m rankwire.Collect) string {
	one := s.find(id)
	switch {
	case one == nil:
		return ""
	case !one.has(l) || len(one.below.Parts(l)) == 0:
		return "of what was not ordered there"
	}
	return one.collectives.Lie(l, m)
}

// LieOfPiece says what of a child's data for the caller cannot be; empty: nothing.
func (s *Sessions) LieOfPiece(l subtree.Link, id uint32) string {
	if has, known := s.Has(l, id, 0); known && !has {
		return "of another's member"
	}
	return ""
}

// Awaits reports whether the parent may release a collective, or the session is over here.
func (s *Sessions) Awaits(id, op uint32) bool {
	one := s.find(id)
	return one == nil || one.collectives.Awaits(op)
}
