package job

import (
	"encoding/binary"
	"sort"
)

// table is runs of nodes in the form in which they travel, one behind the other
// (docs/dev/protocol.md, "run"), so that a table which was received takes the memory
// of its bytes, however short the names are. It is never changed.
type table struct {
	packed string
	marks  []mark // before run 0, markEvery, 2*markEvery, ..., and one at the end
}

// mark is a place between two runs: its byte, and the nodes and ranks before it.
type mark struct{ at, nodes, ranks uint32 }

// markEvery is the number of runs between marks. A run takes 9 bytes or more, so
// that marks add less than a tenth.
const markEvery = 16

// TableSize is what a table of so many runs takes besides them, in bytes.
func TableSize(runs int) int { return 64 + (runs/markEvery+2)*12 }

// cursor walks over the runs of a table.
type cursor struct {
	rest         string
	run          Run
	nodes, ranks uint32 // of the table up to the end of run
}

// next moves to the next run, if there is one.
func (c *cursor) next() bool {
	if c.rest == "" {
		return false
	}
	c.run, c.rest = unpackRun(c.rest)
	c.nodes += c.run.Count
	c.ranks += c.run.Count * c.run.Ranks
	return true
}

// find is a cursor at the first run whose end is beyond something: a node or a rank.
func (t *table) find(beyond func(nodes, ranks uint32) bool) cursor {
	m := t.marks[sort.Search(len(t.marks)-1, func(k int) bool {
		return beyond(t.marks[k+1].nodes, t.marks[k+1].ranks)
	})]
	c := cursor{rest: t.packed[m.at:], nodes: m.nodes, ranks: m.ranks}
	for c.next() && !beyond(c.nodes, c.ranks) {
	}
	return c
}

// withNode is a cursor at the run of a node, which must be of the table.
func (t *table) withNode(node uint32) cursor {
	return t.find(func(nodes, _ uint32) bool { return nodes > node })
}

// withRank is a cursor at the run of a rank, counted from the table's first.
func (t *table) withRank(rank uint32) cursor {
	return t.find(func(_, ranks uint32) bool { return ranks > rank })
}

// ranksBefore counts the ranks before a node, which may be the end.
func (t *table) ranksBefore(node uint32) uint32 {
	if end := t.marks[len(t.marks)-1]; node == end.nodes {
		return end.ranks
	}
	c := t.withNode(node)
	return c.ranks - (c.nodes-node)*c.run.Ranks
}

// UnpackNodes makes a table of count runs that are packed already. Each must be
// whole, of one node or more, and in its one form, which package wire sees to. ok
// is false if two of them should have been one.
func UnpackNodes(base Slot, count int, packed string) (n Nodes, ok bool) {
	t := &table{packed, make([]mark, 0, (count+markEvery-1)/markEvery+1)}
	c := cursor{rest: packed}
	for i := 0; c.rest != ""; i++ {
		if i%markEvery == 0 {
			t.marks = append(t.marks, mark{uint32(len(packed) - len(c.rest)), c.nodes, c.ranks})
		}
		before := c.run
		if c.next(); i > 0 && before.continues(c.run) {
			return Nodes{}, false
		}
	}
	t.marks = append(t.marks, mark{uint32(len(packed)), c.nodes, c.ranks})
	return Nodes{of: t, hi: c.nodes, base: base}, true
}

// packer makes a table of runs that may continue each other.
type packer struct {
	packed []byte
	runs   int
	last   Run // not packed yet
}

func (p *packer) add(r Run) {
	switch {
	case r.Count == 0:
	case p.last.Count > 0 && p.last.continues(r):
		p.last.Count += r.Count
	default:
		p.flush()
		p.last = r
	}
}

func (p *packer) flush() {
	if p.last.Count > 0 {
		p.packed, p.runs = p.last.AppendTo(p.packed), p.runs+1
	}
}

func (p *packer) nodes(base Slot) Nodes {
	if p.flush(); p.runs == 0 {
		return Nodes{base: base}
	}
	n, _ := UnpackNodes(base, p.runs, string(p.packed))
	return n
}

// AppendTo appends a run in the form in which it travels.
func (r Run) AppendTo(to []byte) []byte {
	to = packText(packText(to, r.Prefix), r.Suffix)
	to = binary.AppendUvarint(append(to, r.Width), r.Lo)
	to = binary.AppendUvarint(to, uint64(r.Count))
	to = packText(packText(to, r.User), r.HCA)
	return binary.AppendUvarint(binary.AppendUvarint(to, uint64(r.Slots)), uint64(r.Ranks))
}

func packText(to []byte, s string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(s))), s...)
}

// unpackRun is the reverse, of what AppendTo has made. The run's strings are
// parts of them.
func unpackRun(s string) (r Run, rest string) {
	r.Prefix, s = unpackText(s)
	r.Suffix, s = unpackText(s)
	r.Width, s = s[0], s[1:]
	r.Lo, s = unpackNumber(s)
	r.Count, s = unpackCount(s)
	r.User, s = unpackText(s)
	r.HCA, s = unpackText(s)
	r.Slots, s = unpackCount(s)
	r.Ranks, s = unpackCount(s)
	return r, s
}

func unpackText(s string) (text, rest string) {
	n, s := unpackNumber(s)
	return s[:n], s[n:]
}

func unpackCount(s string) (n uint32, rest string) {
	wide, rest := unpackNumber(s)
	return uint32(wide), rest
}

func unpackNumber(s string) (n uint64, rest string) {
	for i := range len(s) {
		n |= uint64(s[i]&0x7f) << (7 * i)
		if s[i] < 0x80 {
			return n, s[i+1:]
		}
	}
	return n, ""
}
