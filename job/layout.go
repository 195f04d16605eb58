package job

import "sort"

// Share is a stretch of nodes that carry the same number of ranks each.
type Share struct{ Nodes, Ranks uint32 }

// Layout is which node holds which ranks, for the whole job: node 0 the first
// ranks, node 1 those that follow, as long as ranks are not dealt or ordered
// (see Dealt and Ordered). It is kept as runs, so that rank to node is
// arithmetic for a job of like nodes and a short search otherwise. It is a
// value; the zero one has no nodes.
type Layout struct {
	shares []Share
	nodes  []uint32 // nodes before share i, with a closing total
	ranks  []uint32 // ranks before share i, with a closing total
	plane  uint32   // see Dealt

	// See Ordered.
	order  []Stretch
	starts []uint32 // ranks before stretch i
}

// NewLayout makes a layout. Shares that continue each other are joined, and
// those of no nodes or no ranks are left out, so equal layouts have equal
// shares. The slice is copied.
func NewLayout(shares []Share) Layout {
	var l Layout
	for _, s := range shares {
		if s.Nodes == 0 || s.Ranks == 0 {
			continue
		}
		if last := len(l.shares) - 1; last >= 0 && l.shares[last].Ranks == s.Ranks {
			l.shares[last].Nodes += s.Nodes
			continue
		}
		l.shares = append(l.shares, s)
	}
	l.nodes = make([]uint32, len(l.shares)+1)
	l.ranks = make([]uint32, len(l.shares)+1)
	for i, s := range l.shares {
		l.nodes[i+1] = l.nodes[i] + s.Nodes
		l.ranks[i+1] = l.ranks[i] + s.Nodes*s.Ranks
	}
	return l
}

// Without is the layout without some nodes; those after them move up.
func (l Layout) Without(first, count uint32) Layout {
	var shares []Share
	for k, s := range l.shares {
		before := min(max(first, l.nodes[k]), l.nodes[k+1]) - l.nodes[k]
		after := l.nodes[k+1] - min(max(first+count, l.nodes[k]), l.nodes[k+1])
		shares = append(shares, Share{before, s.Ranks}, Share{after, s.Ranks})
	}
	rest := NewLayout(shares).Dealt(l.plane)
	if l.order != nil {
		return rest.By(l.orderWithout(first, count))
	}
	return rest
}

// Layout is the table's own, without the names.
func (n Nodes) Layout() Layout {
	shares := make([]Share, len(n.runs))
	for i, r := range n.runs {
		shares[i] = Share{r.Count, r.Ranks}
	}
	return NewLayout(shares)
}

// Shares returns the layout's runs. The caller must not change them.
func (l Layout) Shares() []Share { return l.shares }

// Nodes is the number of nodes.
func (l Layout) Nodes() uint32 {
	if len(l.shares) == 0 {
		return 0
	}
	return l.nodes[len(l.shares)]
}

// Ranks is the number of ranks.
func (l Layout) Ranks() uint32 {
	if len(l.shares) == 0 {
		return 0
	}
	return l.ranks[len(l.shares)]
}

// NodeOf returns the node of a rank, which must be below Ranks.
func (l Layout) NodeOf(rank uint32) uint32 {
	k := 0
	if len(l.shares) > 1 {
		k = sort.Search(len(l.shares), func(k int) bool { return l.ranks[k+1] > rank })
	}
	return l.nodes[k] + (rank-l.ranks[k])/l.shares[k].Ranks
}

// RanksOn returns the first rank of a node, which must be below Nodes, and how
// many it has.
func (l Layout) RanksOn(node uint32) (first, count uint32) {
	k := 0
	if len(l.shares) > 1 {
		k = sort.Search(len(l.shares), func(k int) bool { return l.nodes[k+1] > node })
	}
	return l.ranks[k] + (node-l.nodes[k])*l.shares[k].Ranks, l.shares[k].Ranks
}
