package job

import (
	"iter"
	"slices"
	"sort"
)

// Share is a stretch of nodes that carry the same number of ranks each.
type Share struct{ Nodes, Ranks uint32 }

// Layout is which node holds which ranks, for the whole job: node 0 the first
// ranks, node 1 those that follow, as long as ranks are not dealt or ordered
// (see Dealt and Ordered). It is kept as runs, so that rank to node is
// arithmetic for a job of like nodes and a short search otherwise. It is a
// value; the zero one has no nodes.
type Layout struct {
	ends  []end  // of the shares, with 0 before them
	plane uint32 // see Dealt

	// See Ordered.
	order  []Stretch
	starts []uint32 // ranks before stretch i
}

// ShareSize is what a share of a layout takes, in bytes.
const ShareSize = 8

// end is the nodes and ranks up to the end of a share.
type end struct{ nodes, ranks uint32 }

// NewLayout makes a layout. Shares that continue each other are joined, and
// those of no nodes or no ranks are left out, so equal layouts have equal
// shares. The slice is copied.
func NewLayout(shares []Share) Layout { return LayoutOf(len(shares), slices.Values(shares)) }

// LayoutOf is NewLayout for at most so many shares.
func LayoutOf(most int, shares iter.Seq[Share]) Layout {
	l := Layout{ends: make([]end, 1, most+1)}
	for s := range shares {
		if s.Nodes == 0 || s.Ranks == 0 {
			continue
		}
		last := len(l.ends) - 1
		to := end{l.ends[last].nodes + s.Nodes, l.ends[last].ranks + s.Nodes*s.Ranks}
		if last > 0 && l.share(last-1).Ranks == s.Ranks {
			l.ends[last] = to
			continue
		}
		l.ends = append(l.ends, to)
	}
	return l
}

// share is the k-th of the layout.
func (l Layout) share(k int) Share {
	nodes := l.ends[k+1].nodes - l.ends[k].nodes
	return Share{nodes, (l.ends[k+1].ranks - l.ends[k].ranks) / nodes}
}

// all are the layout's shares, with the nodes and ranks before each.
func (l Layout) all() iter.Seq2[end, Share] {
	return func(yield func(end, Share) bool) {
		for k := range l.Len() {
			if !yield(l.ends[k], l.share(k)) {
				return
			}
		}
	}
}

// Without is the layout without some nodes; those after them move up.
func (l Layout) Without(first NodeIndex, count uint32) Layout {
	var shares []Share
	for at, s := range l.all() {
		to := at.nodes + s.Nodes
		before := min(max(uint32(first), at.nodes), to) - at.nodes
		after := to - min(max(uint32(first)+count, at.nodes), to)
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
	var shares []Share
	for r := range n.All() {
		shares = append(shares, Share{r.Count, r.Ranks})
	}
	return NewLayout(shares)
}

// Len is the number of shares.
func (l Layout) Len() int { return max(len(l.ends), 1) - 1 }

// Shares are the layout's runs.
func (l Layout) Shares() iter.Seq[Share] {
	return func(yield func(Share) bool) {
		for _, s := range l.all() {
			if !yield(s) {
				return
			}
		}
	}
}

// Nodes is the number of nodes.
func (l Layout) Nodes() uint32 { return l.total().nodes }

// Ranks is the number of ranks.
func (l Layout) Ranks() uint32 { return l.total().ranks }

// total returns the number of nodes and of ranks in all shares.
func (l Layout) total() end {
	if len(l.ends) == 0 {
		return end{}
	}
	return l.ends[len(l.ends)-1]
}

// NodeOf returns the node of a slot, which must be below Ranks.
func (l Layout) NodeOf(slot Slot) NodeIndex {
	k := 0
	if len(l.ends) > 2 {
		k = sort.Search(l.Len(), func(k int) bool { return l.ends[k+1].ranks > uint32(slot) })
	}
	return NodeIndex(l.ends[k].nodes + (uint32(slot)-l.ends[k].ranks)/l.share(k).Ranks)
}

// SlotsOn returns the first slot of a node, which must be below Nodes, and how
// many it has.
func (l Layout) SlotsOn(node NodeIndex) (first Slot, count uint32) {
	k := l.shareOf(node)
	each := l.share(k).Ranks
	return Slot(l.ends[k].ranks + (uint32(node)-l.ends[k].nodes)*each), each
}

// shareOf is the index of the share that has a node.
func (l Layout) shareOf(node NodeIndex) int {
	if len(l.ends) <= 2 {
		return 0
	}
	return sort.Search(l.Len(), func(k int) bool { return l.ends[k+1].nodes > uint32(node) })
}
