package core

import (
	"cmp"
	"slices"

	"ibrun/bootstrap/frame"
	"ibrun/fabric"
	"ibrun/job"
)

// blocks are the node blocks that an agent knows: those of the table of eager mode
// as they came, with an index, and those that came as answers.
type blocks struct {
	byNode map[job.NodeIndex][]byte // by node
	table  frame.Values             // whole
	index  []placed                 // by node
}

// placed is where in the table the block of a node begins.
type placed struct {
	node job.NodeIndex
	at   uint32 // in the list of blocks
}

// open takes the table. What is no block of one of so many nodes is left out.
func (b *blocks) open(table frame.Values, nodes uint32) {
	b.table, b.index = table.Whole(), make([]placed, 0, table.Len())
	for at, raw := range b.table.Places() {
		if node, ok := fabric.BlockNode(raw); ok && node < nodes {
			b.index = append(b.index, placed{job.NodeIndex(node), at})
		}
	}
	slices.SortFunc(b.index, func(a, b placed) int { return cmp.Compare(a.node, b.node) })
}

// of is the block of a node, or nil.
func (b *blocks) of(node job.NodeIndex) []byte {
	if raw := b.byNode[node]; raw != nil {
		return raw
	}
	i, known := slices.BinarySearchFunc(b.index, node, func(p placed, node job.NodeIndex) int { return cmp.Compare(p.node, node) })
	if !known {
		return nil
	}
	return b.table.At(b.index[i].at)
}

// keep takes an answer. A block is not replaced by an older one or by one that
// knows fewer ranks.
func (b *blocks) keep(node job.NodeIndex, raw []byte) {
	if old := b.of(node); old != nil && fabric.Older(raw, old) {
		return
	}
	if b.byNode == nil {
		b.byNode = map[job.NodeIndex][]byte{}
	}
	b.byNode[node] = raw
}
