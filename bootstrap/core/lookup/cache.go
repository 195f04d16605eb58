package lookup

import (
	"cmp"
	"slices"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/fabric"
	"ibrun/internal/job"
)

// maxValues bounds the values of other nodes that an agent keeps, in bytes. Blocks are not bounded:
// a node's is some sixty bytes, and there are as many as nodes that this subtree talks to.
const maxValues = 8 << 20

// cache is what an agent knows of other nodes: their blocks, in package fabric's form, and values
// of their ranks. The blocks of the table of eager mode stay as they came, with an index.
type cache struct {
	blocks map[job.NodeIndex][]byte // that came as answers
	table  frame.Values             // whole
	index  []placed                 // by node
	values map[subject][]byte
	bytes  int // in values
}

// placed is where in the table the block of a node begins.
type placed struct {
	node job.NodeIndex
	at   uint32 // in the list of blocks
}

// open takes the table. What is no block of one of so many nodes is left out. Blocks that came as
// answers give way to newer ones.
func (c *cache) open(table frame.Values, nodes uint32) {
	c.table, c.index = table.Whole(), make([]placed, 0, table.Len())
	for at, raw := range c.table.Places() {
		if node, ok := fabric.BlockNode(raw); ok && node < nodes {
			c.index = append(c.index, placed{job.NodeIndex(node), at})
			if old := c.blocks[job.NodeIndex(node)]; old != nil && fabric.Older(old, raw) {
				delete(c.blocks, job.NodeIndex(node))
			}
		}
	}
	slices.SortFunc(c.index, func(a, b placed) int { return cmp.Compare(a.node, b.node) })
}

// block is the block of a node, or nil.
func (c *cache) block(node job.NodeIndex) []byte {
	if raw := c.blocks[node]; raw != nil {
		return raw
	}
	i, known := slices.BinarySearchFunc(c.index, node, func(p placed, node job.NodeIndex) int {
		return cmp.Compare(p.node, node)
	})
	if !known {
		return nil
	}
	return c.table.At(c.index[i].at)
}

// keep takes an answer.
func (c *cache) keep(s subject, m rankwire.Answer) {
	if m.Key == "" {
		c.keepBlock(s.node, m.Value)
		return
	}
	s.fresh = false
	if c.values == nil {
		c.values = map[subject][]byte{}
	}
	if c.bytes += len(m.Key) + len(m.Value); c.bytes > maxValues {
		clear(c.values) // they are asked for again by those who still need them
		c.bytes = len(m.Key) + len(m.Value)
	}
	c.values[s] = m.Value
}

// keepBlock takes a block. It is not replaced by an older one or by one that knows fewer ranks.
func (c *cache) keepBlock(node job.NodeIndex, raw []byte) {
	if old := c.block(node); old != nil && fabric.Older(raw, old) {
		return
	}
	if c.blocks == nil {
		c.blocks = map[job.NodeIndex][]byte{}
	}
	c.blocks[node] = raw
}

// satisfies reports whether a block has the asked rank in a new enough epoch.
func satisfies(block []byte, m rankwire.Ask) bool {
	epoch := fabric.Published(block, uint32(m.Rank))
	return epoch > 0 && epoch >= m.Least
}
