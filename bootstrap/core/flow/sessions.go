package flow

import (
	"ibrun/bootstrap/core/collective"
	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// session is the state of a session at one agent. Package collective performs the collectives of the members. It works
// on ranks, so the ranks in below represent the members, and their slots are the member numbers.
type session struct {
	id          uint32
	below       subtree.Subtree
	collectives collective.Collectives
	credit      uint32 // bytes of cost (ToolPiece.Cost) that member 0 may still send, if it runs on this node
}

// orderSession passes the order for a session on to children and starts the members of this node.
func (t *Tools) orderSession(m wire.Session) {
	below := m
	below.Credit = childCredit
	daemons := wire.Daemons{ID: m.ID, PerRank: m.PerRank, Nodes: m.Nodes(), Argv: m.Argv, Credit: m.Credit}
	o := t.pass(daemons, below)
	one := t.newSession(m)
	for l := range subtree.Link(t.below.Children()) {
		if len(one.below.Parts(l)) > 0 && o.child(l) < 0 {
			one.below.End(l, false)
		}
	}
	own, start := t.ownDaemons(daemons)
	if len(own) > 0 {
		start.First, start.Count, start.Env = one.below.Own.First(), one.below.Own.Count(), stringsOf(m.Env)
		start.Size = membersBefore(m, job.NodeIndex(t.below.Layout.Nodes()))
		own = own[:0]
		for member := range one.below.Own.All() {
			own = append(own, uint32(member))
		}
	}
	t.begin(o, own, start)
	o.session = one
	if t.find(m.ID) != nil && start.Count == 0 {
		for member := range one.below.Own.All() {
			t.memberExited(o, member)
		}
	}
}

// newSession returns the state of a session for the order m, with the members of this node and of each child's subtree.
func (t *Tools) newSession(m wire.Session) *session {
	var shares []job.Share
	for s := range m.Members.All() {
		shares = append(shares, job.Share{Nodes: s.Nodes.Count, Ranks: s.Each})
	}
	one := &session{id: m.ID, credit: rankwire.ToolCredit}
	one.below.Root, one.below.Layout = t.below.Root, job.NewLayout(shares)
	if t.below.Own.Count() > 0 && !t.below.Own.Left() {
		one.below.Own.Open(membersOf(m, t.at.Index, t.at.Index+1))
	}
	children := make([]job.Parts, t.below.Children())
	for i := range children {
		one.below.Adopt()
		for _, p := range t.below.Parts(subtree.Link(i)) {
			if first, count := membersOf(m, p.First, p.End()); count > 0 {
				run := job.Run{Count: 1, Ranks: count}
				children[i] = append(children[i], job.Part{First: p.First, Nodes: job.NewNodes(first, []job.Run{run})})
			}
		}
		if len(children[i]) == 0 {
			one.below.End(subtree.Link(i), true)
		}
	}
	one.below.Route(func(l subtree.Link) job.Parts { return children[l] })
	one.collectives = collective.New(&one.below, nil)
	one.collectives.Noun = "member"
	return one
}

// membersOf returns the number of the first member on the nodes from lo to hi-1, and the count of members on these
// nodes.
func membersOf(m wire.Session, lo, hi job.NodeIndex) (first job.Slot, count uint32) {
	before := membersBefore(m, lo)
	return job.Slot(before), membersBefore(m, hi) - before
}

// membersBefore returns the number of members of m on the nodes with an index smaller than end.
func membersBefore(m wire.Session, end job.NodeIndex) (count uint32) {
	for s := range m.Members.All() {
		if s.Nodes.First < end {
			count += uint32(min(s.Nodes.End(), end)-s.Nodes.First) * s.Each
		}
	}
	return count
}

// has reports whether child l existed when the session began. Children that were added later take no part in the
// session.
func (s *session) has(l subtree.Link) bool { return int(l) < s.below.Children() }

// collective performs the effects that package collective has returned for session s.
func (t *Tools) collective(s *session, effects []collective.Effect) {
	for i := range effects {
		switch e := &effects[i]; e.Do {
		case collective.Collect:
			t.send(subtree.Up, wire.SessionCollect{ID: s.id, Part: rankwire.Collect(e.Part)})
		case collective.ReleaseChild:
			if !s.below.Ended(e.To) {
				t.send(e.To, wire.SessionRelease{ID: s.id, Part: e.Part})
			}
		case collective.ReleaseRank:
			t.do(TellMember{s.id, e.Rank, e.Part})
		}
	}
	clear(effects)
}

// fromMember handles the message m of a member of this node. If the member violates the protocol, all members of the
// session on this node are killed.
func (t *Tools) fromMember(o *order, member job.Slot, m frame.Message) {
	if o == nil || o.session == nil {
		return
	}
	s := o.session
	if !s.below.Own.Has(member) || s.below.Own.Of(member).Ended() {
		return
	}
	switch m := m.(type) {
	case rankwire.Collect:
		t.collective(s, s.collectives.Join(member, m))
	case rankwire.Finalize:
		s.below.Own.Of(member).End(false)
		t.collective(s, s.collectives.Check())
	case rankwire.ToolPiece:
		if member != 0 || m.Cost() > s.credit {
			t.do(KillDaemons{s.id})
			break
		}
		s.credit -= m.Cost()
		t.fromMemberBelow(o, m)
	case rankwire.ToolRoom:
		if member == 0 {
			t.fromMemberBelow(o, m)
		}
	default:
		t.do(KillDaemons{s.id})
	}
}

// memberExited records that a member of this node has ended. It does nothing if o has no session.
func (t *Tools) memberExited(o *order, member job.Slot) {
	if s := o.session; s != nil && s.below.Own.Has(member) {
		s.below.Own.Of(member).Exit(false)
		t.collective(s, s.collectives.Check())
	}
}

// membersEnded records that all members in the subtree of child l have ended. exited is true if the child has reported
// how they ended. It does nothing if o has no session.
func (t *Tools) membersEnded(o *order, l subtree.Link, exited bool) {
	if s := o.session; s != nil && s.has(l) {
		s.below.End(l, exited)
		t.collective(s, s.collectives.Check())
	}
}

// collectBelow handles the message by which the subtree of child l joins a collective.
func (t *Tools) collectBelow(o *order, l subtree.Link, m rankwire.Collect) {
	if o == nil || o.session == nil || !o.session.has(l) {
		return
	}
	head := job.Slot(0)
	if parts := o.session.below.Parts(l); len(parts) > 0 {
		head = parts[0].Nodes.Base()
	}
	t.collective(o.session, o.session.collectives.JoinBelow(l, head, m))
}

// release handles the result of a collective, which the parent has sent.
func (t *Tools) release(o *order, m rankwire.Release) {
	if o != nil && o.session != nil {
		t.collective(o.session, o.session.collectives.Release(m))
	}
}

// toMember passes m, a ToolPiece or ToolRoom from the caller, on towards member 0.
func (t *Tools) toMember(o *order, m frame.Message) {
	if o == nil || o.session == nil {
		return
	}
	s := o.session
	if s.below.Own.Has(0) {
		if room, ok := m.(rankwire.ToolRoom); ok {
			s.credit += room.N
		}
		t.do(TellMember{s.id, 0, m})
	} else if l, below := s.below.Child(0); below && !s.below.Ended(l) {
		t.sendPiece(l, o, m)
	}
}

// fromMemberBelow passes m, a ToolPiece or ToolRoom from member 0, on towards the caller.
func (t *Tools) fromMemberBelow(o *order, m frame.Message) {
	if o == nil || o.session == nil {
		return
	}
	if !t.below.Root {
		t.sendPiece(subtree.Up, o, m)
		return
	}
	switch m := m.(type) {
	case rankwire.ToolPiece:
		t.do(SessionReceived{t.tickets[o.id], m})
	case rankwire.ToolRoom:
		t.do(SessionRoom{t.tickets[o.id], m.N})
	}
}

func (t *Tools) sendPiece(to subtree.Link, o *order, m frame.Message) {
	switch m := m.(type) {
	case rankwire.ToolPiece:
		t.send(to, wire.SessionPiece{ID: o.id, Data: m})
	case rankwire.ToolRoom:
		t.send(to, wire.SessionRoom{ID: o.id, N: m.N})
	}
}
