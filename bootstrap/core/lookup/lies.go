package lookup

import (
	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/fabric"
	"ibrun/internal/job"
)

// Lie says what of a neighbour's answer cannot be; empty: nothing. Somebody must have asked, and a
// block must be that of the node, with the rank in it.
func (l *Lookups) Lie(from subtree.Link, m rankwire.Answer) string {
	if l.hasLeft(m.Rank) {
		return ""
	}
	if uint32(m.Rank) >= l.below.Layout.Ranks() {
		return "about no rank"
	}
	q := l.open[l.subject(rankwire.Ask{Rank: m.Rank, Key: m.Key, Fresh: m.Fresh})]
	if q == nil || q.to != from {
		return "to no question"
	}
	if m.What != rankwire.Found || m.Key != "" {
		return ""
	}
	if !l.isBlock(m.Value, l.below.Layout.NodeOf(m.Rank)) || !satisfies(m.Value, rankwire.Ask{Rank: m.Rank}) {
		return "without the rank's address"
	}
	return ""
}

// isBlock reports whether a value is the block of a node, as far as it says whose it is; who needs
// an address in it reads the rest.
func (l *Lookups) isBlock(value []byte, node job.NodeIndex) bool {
	first, ranks, ok := fabric.BlockRanks(value)
	at, _ := blockNode(value)
	if !ok || at != node || uint32(node) >= l.below.Layout.Nodes() {
		return false
	}
	wantFirst, want := l.below.Layout.SlotsOn(node)
	return job.Slot(first) == wantFirst && ranks == want
}

func blockNode(value []byte) (job.NodeIndex, bool) {
	node, ok := fabric.BlockNode(value)
	return job.NodeIndex(node), ok
}
