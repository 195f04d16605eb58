package flow

import (
	"fmt"
	"slices"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// askDaemons opens an order for the daemons that a caller of the root has asked for, or refuses the request.
func (t *Tools) askDaemons(ev DaemonsAsked) {
	if !t.mayOrder(ev.ID) {
		return
	}
	m := wire.Daemons{PerRank: ev.PerRank, Argv: rankwire.NewStrings(ev.Argv...), Credit: callerCredit}
	if ev.Input != wire.ReadsNothing {
		node := wire.NodeSpan{First: t.below.Layout.NodeOf(ev.OfRank), Count: 1}
		m.PerRank, m.Nodes, m.Input, m.OfRank, m.Window = true, wire.NewNodeSpans(node), ev.Input, ev.OfRank, ev.Window
	} else if len(ev.Hosts) > 0 {
		nodes, missing := t.nodesOf(ev.Hosts)
		if missing != "" {
			t.refuse(ev.ID, "the job has no host "+missing)
			return
		}
		m.Nodes = nodes
	}
	m.ID = t.ticketed(ev.ID)
	t.order(m)
}

// askSession opens an order for the session that a caller of the root has asked for, or refuses the request.
func (t *Tools) askSession(ev SessionAsked) {
	if !t.mayOrder(ev.ID) {
		return
	}
	members, on, why := t.placeMembers(ev.On, ev.PerRank)
	if why != "" {
		t.refuse(ev.ID, why)
		return
	}
	id := t.ticketed(ev.ID)
	t.do(SessionOpened{ID: ev.ID, On: on})
	t.orderSession(wire.Session{ID: id, Members: wire.NewMemberSpans(members...), PerRank: ev.PerRank,
		Argv: rankwire.NewStrings(ev.Argv...), Env: rankwire.NewStrings(ev.Env...), Credit: callerCredit})
}

// refuse tells the caller that has asked with the given ticket why it gets no daemons.
func (t *Tools) refuse(ticket uint32, why string) {
	t.do(DaemonsOver{DaemonsEnded: wire.DaemonsEnded{ID: ticket}, Refused: why})
}

// mayOrder reports whether the caller with the given ticket can have daemons now. If not, it refuses the request.
func (t *Tools) mayOrder(ticket uint32) bool {
	switch {
	case !t.at.Running:
		t.refuse(ticket, "the job's ranks do not run yet, or not any more")
	case len(t.open) >= maxOpen:
		t.refuse(ticket, fmt.Sprintf("the job has daemons for %d callers already", maxOpen))
	default:
		return true
	}
	return false
}

// ticketed returns the ID for a new order, and records the ticket for it. A ticket is the number that the driver has
// chosen for the request of a caller. IDs of orders are numbers from 1, which the root chooses.
func (t *Tools) ticketed(ticket uint32) uint32 {
	id := t.newest + 1
	t.tickets[id] = ticket
	return id
}

// nodes yields the index and the host of each node of the job, child by child. It is called at the root.
func (t *Tools) nodes(yield func(job.NodeIndex, string) bool) {
	for l := range subtree.Link(t.below.Children()) {
		for _, p := range t.below.Parts(l) {
			for k := range p.Nodes.Len() {
				if !yield(p.First+job.NodeIndex(k), t.at.HostOf(p, k)) {
					return
				}
			}
		}
	}
}

// nodesOf returns the nodes of the job that have the given host names. If no node has one of these names, missing is
// that name. Otherwise missing is empty.
func (t *Tools) nodesOf(hosts []string) (nodes wire.NodeSpans, missing string) {
	found := map[string]bool{}
	for _, h := range hosts {
		found[h] = false
	}
	var all []job.NodeIndex
	for index, host := range t.nodes {
		if _, asked := found[host]; asked {
			found[host] = true
			all = append(all, index)
		}
	}
	for _, h := range hosts {
		if !found[h] {
			return nodes, h
		}
	}
	slices.Sort(all)
	var spans []wire.NodeSpan
	for _, n := range all {
		if last := len(spans) - 1; last >= 0 && spans[last].End() == n {
			spans[last].Count++
		} else {
			spans = append(spans, wire.NodeSpan{First: n, Count: 1})
		}
	}
	return wire.NewNodeSpans(spans...), ""
}

// placeMembers places the members of a session on the hosts in asked, or on all nodes of the job if asked is empty. A
// node has as many members as asked says, or 1 if asked is empty. If perRank is set, it has one for each of its ranks
// instead. spans lists the numbers of members by node, and on lists them by host, both in the order of member numbers.
// If the members cannot be placed, why is the reason.
func (t *Tools) placeMembers(asked []MembersOn, perRank bool) (spans []wire.MemberSpan, on []MembersOn, why string) {
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
	for index, host := range t.nodes {
		count := want[host]
		if len(asked) == 0 {
			count = 1
		}
		if !perRank {
			delete(want, host) // if several nodes have the same host name, the first gets all its members
		} else if count > 0 {
			found[host] = true
			_, count = t.below.Layout.SlotsOn(index)
		}
		if count > 0 {
			all = append(all, at{index, MembersOn{host, count}})
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
