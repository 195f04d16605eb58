package pmi

import (
	"fmt"

	"ibrun/internal/job"
)

// Mapping is the value of PMI_process_mapping for a layout:
// (vector,(first node, nodes, ranks of each),...), blocks in the order of the
// user's ranks. Readers that run out of blocks before they run out of ranks
// begin again with the first; that is used only when it saves blocks, which
// ranks dealt to nodes in turn need. It takes time and memory in proportion
// to the ranks, so make it once for a job. It may come out longer than
// a PMI-1 line has room for (a thousand bytes) when ranks were dealt to
// unlike nodes; such clients are then told that there is none, and ask each
// other for the names of their hosts. An empty layout has none: "".
func Mapping(l job.Layout) string {
	nodes := make([]job.NodeIndex, l.Ranks())
	for slot := range job.Slot(l.Ranks()) {
		nodes[l.Rank(slot)] = l.NodeOf(slot)
	}
	if len(nodes) == 0 {
		return ""
	}
	all := blocks(nodes)
	if once := blocks(nodes[:round(nodes)]); len(once) < len(all) {
		all = once
	}
	text := []byte("(vector")
	for _, s := range all {
		text = fmt.Appendf(text, ",(%d,%d,%d)", s.first, s.nodes, s.each)
	}
	return string(text) + ")"
}

// stretch is a block of a mapping: nodes that follow each other, with like
// numbers of ranks.
type stretch struct {
	first       job.NodeIndex
	nodes, each uint32
}

// blocks makes the fewest blocks that say which node each rank is on without
// taking ranks apart that follow each other on a node.
func blocks(nodes []job.NodeIndex) (all []stretch) {
	for len(nodes) > 0 {
		n := 1
		for n < len(nodes) && nodes[n] == nodes[0] {
			n++
		}
		node, each := nodes[0], uint32(n)
		nodes = nodes[n:]
		last := len(all) - 1
		follows := last >= 0 && all[last].each == each && all[last].first+job.NodeIndex(all[last].nodes) == node
		if follows {
			all[last].nodes++
			continue
		}
		all = append(all, stretch{node, 1, each})
	}
	return all
}

// round is how many ranks it takes until all that follow repeat; all of them
// if they do not. Ranks are dealt in rounds that begin with node 0 and can only
// get smaller, so that the first round is the one to try.
func round(nodes []job.NodeIndex) int {
	n := 1
	for n < len(nodes) && (nodes[n] != nodes[0] || nodes[n-1] == nodes[0]) {
		n++
	}
	for i := n; i < len(nodes); i++ {
		if nodes[i] != nodes[i-n] {
			return len(nodes)
		}
	}
	return n
}
