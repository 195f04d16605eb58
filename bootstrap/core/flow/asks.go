package flow

import (
	"fmt"
	"slices"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// askDaemons handles a request for daemons at the root. It opens an order for the daemons or refuses the request.
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

// askSession handles a request for a session at the root. It opens an order for the session or refuses the request.
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

// refuse tells a caller that its request is refused. ticket is the ID of the request, and why is the reason.
func (t *Tools) refuse(ticket uint32, why string) {
	t.do(DaemonsOver{DaemonsEnded: wire.DaemonsEnded{ID: ticket}, Refused: why})
}

// mayOrder reports whether the request with the ID ticket can be accepted now. If not, it refuses the request.
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

// ticketed allocates the ID of a new order. It maps this ID to ticket, the ID that the driver has given to the request.
// Order IDs count up from 1.
func (t *Tools) ticketed(ticket uint32) uint32 {
	id := t.newest + 1
	t.tickets[id] = ticket
	return id
}

// nodes yields the index and the host name of each node of the job, in the order of the root's children. Only the root
// calls it.
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

// nodesOf returns the nodes of the job that have the given host names. missing is the first of these names that no node
// has, or "" if there is none.
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

// placeMembers assigns the members of a session to nodes. asked lists the hosts and the number of members on each of
// them. If asked is empty, each node of the job gets one member. If perRank is set, each of these nodes gets one member
// per rank instead. spans contains the number of members on each node, and on contains it with the host name. Both are
// in the order of member numbers. If the members cannot be placed, why is the reason.
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
			delete(want, host) // the first node with this host name gets all members of the host
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
