package flow

import (
	"slices"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/internal/job"
)

const (
	notOrdered      = "of what was not ordered"
	notOrderedThere = "of what was not ordered there, or has ended"
	notForIt        = "for what was not ordered"
	ofAnother       = "of another's"
)

// ChildLie returns the reason to reject a message from child l, or "" if the message is valid. The number of a daemon
// is the index of its node or the slot of its rank. has reports whether the subtree of l contains the node or rank with
// this number. For members of a session, has is not called.
func (t *Tools) ChildLie(l subtree.Link, m frame.Message, has func(number uint32) bool) string {
	switch m := m.(type) {
	case wire.DaemonOutput:
		return t.outputLie(l, m, has)
	case wire.DaemonsEnded:
		return t.endsLie(l, m, has)
	case wire.DaemonRoom:
		o := t.find(m.ID)
		if m.ID <= t.newest && o != nil && (o.child(l) < 0 || int(m.N) > o.input.sent) {
			return "of more than it was sent"
		}
		return t.unknown(m.ID)
	case wire.SessionCollect:
		return t.unknown(m.ID) + t.collectLie(l, m)
	case wire.SessionPiece:
		return t.unknown(m.ID) + t.pieceLie(l, m.ID)
	case wire.SessionRoom:
		return t.unknown(m.ID) + t.pieceLie(l, m.ID)
	}
	return ""
}

// unknown returns a reason to reject a child's message about the order id if this agent has not received the order.
// Otherwise it returns "".
func (t *Tools) unknown(id uint32) string {
	if id > t.newest {
		return notOrdered
	}
	return ""
}

// owns reports whether the daemon with the given number of the order id is in the subtree of child l. In a session,
// number is that of a member. For other orders, owns returns the result of has, which is as in ChildLie.
func (t *Tools) owns(l subtree.Link, id, number uint32, has func(number uint32) bool) bool {
	if o := t.find(id); o != nil && o.session != nil {
		at, below := o.session.below.Child(job.Slot(number))
		return below && at == l
	}
	return has(number)
}

func (t *Tools) outputLie(l subtree.Link, m wire.DaemonOutput, has func(number uint32) bool) string {
	if !t.owns(l, m.ID, m.Number, has) {
		return ofAnother
	}
	if o := t.find(m.ID); o != nil {
		if i := o.child(l); i < 0 {
			return notOrderedThere
		} else if len(m.Data) > o.children[i].credit {
			return "beyond its credit"
		}
	}
	return t.unknown(m.ID)
}

func (t *Tools) endsLie(l subtree.Link, m wire.DaemonsEnded, has func(number uint32) bool) string {
	o := t.find(m.ID)
	if o == nil {
		return t.unknown(m.ID)
	}
	i := o.child(l)
	if i < 0 {
		return notOrderedThere
	}
	if uint64(m.Over)+uint64(m.Lost) > uint64(o.children[i].most) ||
		uint64(m.Failed.Len())+uint64(m.More) > uint64(m.Daemons) {
		return "of more than it has"
	}
	for f := range m.Failed.All() {
		if !t.owns(l, m.ID, f.Number, has) {
			return ofAnother
		}
	}
	return ""
}

// collectLie returns the reason to reject the message by which child l joins a collective, or "" if it is valid. It
// accepts messages for sessions that have ended, because the child may have sent them before.
func (t *Tools) collectLie(l subtree.Link, m wire.SessionCollect) string {
	o := t.find(m.ID)
	switch {
	case o == nil || o.session == nil:
		return ""
	case !o.session.has(l) || len(o.session.below.Parts(l)) == 0:
		return "of what was not ordered there"
	}
	return o.session.collectives.Lie(l, m.Part)
}

func (t *Tools) pieceLie(l subtree.Link, id uint32) string {
	if o := t.find(id); o != nil && o.session != nil && !t.owns(l, id, 0, nil) {
		return "of another's member"
	}
	return ""
}

// ParentLie returns the reason to reject a message of the parent, or "" if the message is valid.
func (t *Tools) ParentLie(m frame.Message) string {
	const repeated = "before Ready, again, or of no nodes"
	switch m := m.(type) {
	case wire.Daemons:
		if m.ID <= t.newest || !t.hasNodes(m.Nodes) || !t.reachesItsRank(m) {
			return repeated
		}
	case wire.Session:
		if m.ID <= t.newest || !t.hasNodes(m.Nodes()) || !t.besideRanks(m) {
			return repeated
		}
	case wire.SessionRelease:
		if o := t.find(m.ID); t.isNew(m.ID) || o != nil && o.session != nil && !o.session.collectives.Awaits(m.Part.Op) {
			return "of what nobody has joined"
		}
	case wire.SessionPiece:
		return t.newLie(m.ID, notOrdered)
	case wire.SessionRoom:
		return t.newLie(m.ID, notOrdered)
	case wire.DaemonGrant:
		return t.newLie(m.ID, notForIt)
	case wire.DaemonsEnd:
		return t.newLie(m.ID, notOrdered)
	case wire.DaemonInput:
		if o := t.find(m.ID); o != nil && (!o.input.reads || o.input.sent+len(m.Data) > InputCredit) {
			return "for what does not read, or for no room"
		}
		return t.newLie(m.ID, notForIt)
	}
	return ""
}

// newLie returns lie if no order with the given ID has arrived from the parent, or "" otherwise.
func (t *Tools) newLie(id uint32, lie string) string {
	if t.isNew(id) {
		return lie
	}
	return ""
}

// isNew reports whether no order with the given ID has arrived from the parent. It also searches the waiting messages
// in t.held.
func (t *Tools) isNew(id uint32) bool {
	return id > t.newest && !slices.ContainsFunc(t.held, func(m frame.Message) bool {
		switch m := m.(type) {
		case wire.Daemons:
			return m.ID == id
		case wire.Session:
			return m.ID == id
		}
		return false
	})
}

// hasNodes reports whether the job has all nodes of asked. The spans of asked must be in ascending order.
func (t *Tools) hasNodes(asked wire.NodeSpans) bool {
	end := job.NodeIndex(0)
	for s := range asked.All() {
		end = s.End()
	}
	return uint32(end) <= t.below.Layout.Nodes()
}

// reachesItsRank reports whether m is for exactly one node, the node of rank m.OfRank. If the daemons of m read no
// input, it returns true.
func (t *Tools) reachesItsRank(m wire.Daemons) bool {
	if m.Input == wire.ReadsNothing {
		return true
	}
	for s := range m.Nodes.All() {
		return uint32(m.OfRank) < t.below.Layout.Ranks() && s == wire.NodeSpan{First: t.below.Layout.NodeOf(m.OfRank), Count: 1}
	}
	return false
}

// besideRanks reports whether each node of m has as many members as ranks. If m.PerRank is not set, it returns true.
// All nodes of m must be nodes of the job. besideRanks also checks nodes outside this agent's subtree, because each
// child does so too. Otherwise a child could reject an order that this agent has accepted.
func (t *Tools) besideRanks(m wire.Session) bool {
	if !m.PerRank {
		return true
	}
	shares, k, end := slices.Collect(t.below.Layout.Shares()), -1, job.NodeIndex(0)
	for s := range m.Members.All() { // each span must lie in one job.Share, because Layout joins adjacent equal shares
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
