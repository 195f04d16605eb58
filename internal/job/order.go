package job

import (
	"slices"
	"sort"
)

// Stretch is ranks that follow each other: so many on each of some nodes that follow each other.
type Stretch struct {
	Node         NodeIndex // the first node
	Nodes, Ranks uint32    // nodes, and ranks on each
}

// Ordered returns the layout with ranks in an order that neither nodes nor turns give: that of
// several programs that each have nodes of their own, or of a rank file. The stretches name each
// slot once, each node's in its order, and are as few as can be. ok is false if they do not, or
// say no more than the layout without them.
func (l Layout) Ordered(order []Stretch) (ordered Layout, ok bool) {
	ranks := uint64(0)
	inOrder := true
	l.order, l.starts = nil, nil
	for i, s := range order {
		if s.Nodes == 0 || s.Ranks == 0 || uint64(s.Node)+uint64(s.Nodes) > uint64(l.Nodes()) {
			return Layout{}, false
		}
		if i > 0 {
			last := order[i-1]
			end := last.Node + NodeIndex(last.Nodes)
			if last.Ranks == s.Ranks && end == s.Node || end-1 == s.Node {
				return Layout{}, false // one stretch, or another cut of two
			}
			inOrder = inOrder && end == s.Node
		}
		l.starts = append(l.starts, uint32(ranks))
		if ranks += uint64(s.Nodes) * uint64(s.Ranks); ranks > uint64(l.Ranks()) {
			return Layout{}, false
		}
	}
	if inOrder || !l.covers(order) {
		return Layout{}, false
	}
	l.plane, l.order = 0, slices.Clone(order)
	return l, true
}

// covers reports whether the stretches in order give each node as many ranks as the layout l does.
func (l Layout) covers(order []Stretch) bool {
	// changes maps a node to the change, from the previous node to this one, of the difference between the number of
	// ranks in order and the number in l. The layouts are equal if all changes are 0.
	changes := map[NodeIndex]int64{}
	for _, s := range order {
		changes[s.Node] += int64(s.Ranks)
		changes[s.Node+NodeIndex(s.Nodes)] -= int64(s.Ranks)
	}
	for at, s := range l.all() {
		changes[NodeIndex(at.nodes)] -= int64(s.Ranks)
		changes[NodeIndex(at.nodes+s.Nodes)] += int64(s.Ranks)
	}
	for _, c := range changes {
		if c != 0 {
			return false
		}
	}
	return true
}

// By returns the layout with ranks in the order of their nodes, of which there must be one for
// each rank, and as many of each as it has ranks.
func (l Layout) By(nodes []NodeIndex) Layout {
	var order []Stretch
	for len(nodes) > 0 {
		n := 1
		for n < len(nodes) && nodes[n] == nodes[0] {
			n++
		}
		s := Stretch{nodes[0], 1, uint32(n)}
		nodes = nodes[n:]
		if k := len(order) - 1; k >= 0 && order[k].Ranks == s.Ranks &&
			order[k].Node+NodeIndex(order[k].Nodes) == s.Node {
			order[k].Nodes++
			continue
		}
		order = append(order, s)
	}
	if ordered, ok := l.Ordered(order); ok {
		return ordered
	}
	return l.Dealt(0) // they are in the order of nodes
}

// StretchSize is what a stretch of an order takes in a layout, in bytes.
const StretchSize = 16

// Order is the stretches of a layout in an order of its own; else none. The caller must not
// change them.
func (l Layout) Order() []Stretch { return l.order }

// Plain reports whether each rank equals its slot.
func (l Layout) Plain() bool { return l.plane == 0 && l.order == nil }

// orderedRank is Rank for a layout in an order of its own.
func (l Layout) orderedRank(slot Slot) Rank {
	node := l.NodeOf(slot)
	first, _ := l.SlotsOn(node)
	local := uint32(slot - first)
	for i, s := range l.order {
		if uint32(node-s.Node) >= s.Nodes { // below the first, too: it wraps around
			continue
		}
		if local < s.Ranks {
			return Rank(l.starts[i] + uint32(node-s.Node)*s.Ranks + local)
		}
		local -= s.Ranks
	}
	panic("job: a slot beyond the layout's")
}

// orderedSlot is Slot for a layout in an order of its own.
func (l Layout) orderedSlot(rank Rank) Slot {
	k := sort.Search(len(l.order), func(k int) bool { return l.starts[k] > uint32(rank) }) - 1
	s, off := l.order[k], uint32(rank)-l.starts[k]
	node := s.Node + NodeIndex(off/s.Ranks)
	slot, _ := l.SlotsOn(node)
	for _, earlier := range l.order[:k] {
		if uint32(node-earlier.Node) < earlier.Nodes {
			slot += Slot(earlier.Ranks)
		}
	}
	return slot + Slot(off%s.Ranks)
}

// orderWithout is the order without some nodes; those after them move up.
func (l Layout) orderWithout(first NodeIndex, count uint32) []NodeIndex {
	var nodes []NodeIndex
	for _, s := range l.order {
		for node := s.Node; node < s.Node+NodeIndex(s.Nodes); node++ {
			if uint32(node-first) < count {
				continue
			}
			moved := node
			if node >= first {
				moved -= NodeIndex(count)
			}
			nodes = append(nodes, slices.Repeat([]NodeIndex{moved}, int(s.Ranks))...)
		}
	}
	return nodes
}
