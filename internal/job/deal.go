package job

import "sort"

// Slot and rank differ if ranks were dealt to the nodes in turn (--map-by node,
// -m cyclic, -m plane=N), or have an order of their own (order.go). Agents use
// slots, programs and users see ranks, and the two are converted where they meet.

// Dealt returns the layout with ranks dealt plane at a time, each node getting
// its turn as long as it has slots; 0: not dealt.
func (l Layout) Dealt(plane uint32) Layout {
	l.plane, l.order, l.starts = plane, nil, nil
	return l
}

// Plane is how many ranks a node is dealt at a time; 0: they are not dealt.
func (l Layout) Plane() uint32 { return l.plane }

// Rank is the rank of a slot, which must be below Ranks.
func (l Layout) Rank(slot Slot) Rank {
	switch {
	case l.order != nil:
		return l.orderedRank(slot)
	case l.plane == 0:
		return Rank(slot)
	}
	node := uint32(l.NodeOf(slot))
	first, _ := l.SlotsOn(NodeIndex(node))
	local := uint32(slot - first)
	round := local / l.plane
	rank := l.before(round) + local%l.plane
	for at, s := range l.all() {
		rank += min(s.Nodes, node-min(node, at.nodes)) * l.turn(s, round)
	}
	return Rank(rank)
}

// Slot is the reverse of Rank; the rank must be below Ranks.
func (l Layout) Slot(rank Rank) Slot {
	switch {
	case l.order != nil:
		return l.orderedSlot(rank)
	case l.plane == 0:
		return Slot(rank)
	}
	most := uint32(0)
	for _, s := range l.all() {
		most = max(most, s.Ranks)
	}
	rounds := int((uint64(most) + uint64(l.plane) - 1) / uint64(l.plane))
	round := uint32(sort.Search(rounds, func(k int) bool { return l.before(uint32(k)+1) > uint32(rank) }))
	rest := uint32(rank) - l.before(round)
	for at, s := range l.all() {
		each := l.turn(s, round)
		if rest < s.Nodes*each {
			return Slot(at.ranks + rest/each*s.Ranks + round*l.plane + rest%each)
		}
		rest -= s.Nodes * each
	}
	panic("job: a rank beyond the layout's")
}

// before is how many ranks all rounds before this one dealt.
func (l Layout) before(round uint32) uint32 {
	sum := uint32(0)
	for _, s := range l.all() {
		sum += s.Nodes * uint32(min(uint64(s.Ranks), uint64(round)*uint64(l.plane)))
	}
	return sum
}

// turn is how many ranks one node of a share is dealt in a round.
func (l Layout) turn(s Share, round uint32) uint32 {
	from := uint64(round) * uint64(l.plane)
	if from >= uint64(s.Ranks) {
		return 0
	}
	return uint32(min(uint64(l.plane), uint64(s.Ranks)-from))
}

// deal gives each node plane ranks at a time, in turn, up to its weight, until
// the ranks are used up.
func (n Nodes) deal(ranks, plane uint64, weight func(Run) uint64) Nodes {
	most := uint64(0)
	for r := range n.All() {
		most = max(most, min(weight(r), ranks))
	}
	dealt := func(rounds uint64) (sum uint64) {
		for r := range n.All() {
			sum += uint64(r.Count) * min(weight(r), rounds*plane)
		}
		return sum
	}
	// All rounds but the last are whole.
	whole := uint64(sort.Search(int((most+plane-1)/plane), func(k int) bool { return dealt(uint64(k)+1) > ranks }))
	left := ranks - dealt(whole)
	var out []Run
	for r := range n.All() {
		have := min(weight(r), whole*plane)
		turn := min(weight(r)-have, plane)
		full := uint64(0)
		if turn > 0 {
			full = min(uint64(r.Count), left/turn)
		}
		left -= full * turn
		out = append(out, r.part(0, full, have+turn))
		if full < uint64(r.Count) {
			rest := []Run{r.part(full, 1, have+left), r.part(full+1, uint64(r.Count)-full-1, have)}
			left = 0
			for _, p := range rest {
				if p.Ranks > 0 {
					out = append(out, p)
				}
			}
		}
	}
	return NewNodes(0, out)
}
