package job

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Run is a stretch of nodes whose names differ only in a number and that
// carry the same number of ranks each. A name that is not part of a range is
// a run of one with Width 0 and the whole name in Prefix.
type Run struct {
	Prefix, Suffix string // the name around the number
	Width          uint8  // digits of the number, zero-padded; 0: the run has no number
	Lo             uint64 // number of the first node
	Count          uint32 // nodes, at least 1
	User           string // login name on these nodes, or empty
	HCA            string // "device" or "device:port" asked for in a host file, or empty
	Slots          uint32 // slots per node as written; 0: not written
	Ranks          uint32 // ranks on each node; 0 before placement
}

// Node is one node of a table.
type Node struct {
	Host, User, HCA string
	Slots, Ranks    uint32
	First           Slot // of the node
}

// End is the slot after the node's last one.
func (n Node) End() Slot { return n.First + Slot(n.Ranks) }

// Nodes is a table of nodes in rank order: node i+1 holds the ranks that
// follow node i's. It is kept as packed runs (see table), so its size follows
// the number of distinct name patterns and not the number of nodes. The zero
// value is empty. Nodes is a value: no method changes it, and slices share the
// table that they are of.
type Nodes struct {
	of     *table
	lo, hi uint32 // nodes of the table
	base   Slot   // first slot of the first node
	before uint32 // ranks of the table before that
}

// NewNodes makes a table whose first node's first slot is base. Runs that
// continue each other are joined and runs of no nodes are left out, so equal
// tables have equal runs.
func NewNodes(base Slot, runs []Run) Nodes {
	var b packer
	for _, r := range runs {
		b.add(r)
	}
	return b.nodes(base)
}

// continues reports whether after is a plain continuation of r.
func (r Run) continues(after Run) bool {
	next := r
	next.Lo, next.Count = r.Lo+uint64(r.Count), after.Count
	return next == after && r.Width > 0
}

// All are the runs of the table, in order.
func (n Nodes) All() iter.Seq[Run] {
	return func(yield func(Run) bool) {
		if n.hi == n.lo {
			return
		}
		c := n.of.withNode(n.lo)
		for more := true; more; more = c.nodes < n.hi && c.next() {
			r := c.run
			if first := c.nodes - r.Count; first < n.lo {
				r.Lo, r.Count = r.Lo+uint64(n.lo-first), r.Count-(n.lo-first)
			}
			r.Count -= c.nodes - min(c.nodes, n.hi)
			if !yield(r) {
				return
			}
		}
	}
}

// Runs lists the runs of the table.
func (n Nodes) Runs() []Run { return slices.Collect(n.All()) }

// Base is the first slot of the first node.
func (n Nodes) Base() Slot { return n.base }

// From is the table with other slots: its first node's first slot is base.
func (n Nodes) From(base Slot) Nodes {
	n.base = base
	return n
}

// HostList is the names of the nodes in their order, as in n[01-16],front.
func (n Nodes) HostList() string {
	var runs []Run
	for r := range n.All() {
		runs = append(runs, Run{Prefix: r.Prefix, Suffix: r.Suffix, Width: r.Width, Lo: r.Lo, Count: r.Count})
	}
	var names []string
	for r := range NewNodes(0, runs).All() {
		names = append(names, r.String())
	}
	return strings.Join(names, ",")
}

// Len is the number of nodes.
func (n Nodes) Len() int { return int(n.hi - n.lo) }

// Ranks is the number of ranks on all nodes together.
func (n Nodes) Ranks() uint32 {
	if n.hi == n.lo {
		return 0
	}
	return n.of.ranksBefore(n.hi) - n.before
}

// At returns node i, which must be in [0, Len()).
func (n Nodes) At(i int) Node {
	at := n.lo + uint32(i)
	c := n.of.withNode(at)
	r := c.run
	return Node{
		Host: r.Host(at - (c.nodes - r.Count)), User: r.User, HCA: r.HCA, Slots: r.Slots, Ranks: r.Ranks,
		First: n.base + Slot(c.ranks-n.before-(c.nodes-at)*r.Ranks),
	}
}

// Host is the name of the run's node off, counted from its first.
func (r Run) Host(off uint32) string {
	if r.Width == 0 {
		return r.Prefix + r.Suffix
	}
	return fmt.Sprintf("%s%0*d%s", r.Prefix, int(r.Width), r.Lo+uint64(off), r.Suffix)
}

// String is the names of the run, as a host list has them: n[01-16].
func (r Run) String() string {
	if r.Count < 2 {
		return r.Host(0)
	}
	return fmt.Sprintf("%s[%0*d-%0*d]%s", r.Prefix, r.Width, r.Lo, r.Width, r.Lo+uint64(r.Count)-1, r.Suffix)
}

// Slice returns nodes [lo, hi) as a table of their own.
func (n Nodes) Slice(lo, hi int) Nodes {
	if lo >= hi {
		return Nodes{}
	}
	before := n.of.ranksBefore(n.lo + uint32(lo))
	return Nodes{of: n.of, lo: n.lo + uint32(lo), hi: n.lo + uint32(hi), base: n.base + Slot(before-n.before),
		before: before}
}

// Join is the table with the nodes of another behind its own.
func (n Nodes) Join(o Nodes) Nodes {
	switch {
	case n.Len() == 0:
		return o
	case o.Len() == 0:
		return n
	case n.of == o.of && n.hi == o.lo:
		n.hi = o.hi
		return n
	}
	var b packer
	for r := range n.All() {
		b.add(r)
	}
	for r := range o.All() {
		b.add(r)
	}
	return b.nodes(n.base)
}

// NodeOf returns the table's node that has a slot, by its place in the table, or -1 if none has it.
func (n Nodes) NodeOf(slot Slot) int {
	if slot < n.base || uint32(slot-n.base) >= n.Ranks() {
		return -1
	}
	off := uint32(slot-n.base) + n.before
	c := n.of.withRank(off)
	return int(c.nodes - n.lo - (c.ranks-off+c.run.Ranks-1)/c.run.Ranks)
}

// Index returns the first node with the given host name, or -1.
func (n Nodes) Index(host string) int {
	at := 0
	for r := range n.All() {
		if i, ok := r.index(host); ok {
			return at + int(i)
		}
		at += int(r.Count)
	}
	return -1
}

// index finds a host in a run.
func (r Run) index(host string) (i uint32, ok bool) {
	if r.Width == 0 {
		return 0, r.Prefix+r.Suffix == host
	}
	mid, ok := strings.CutPrefix(host, r.Prefix)
	mid, ok2 := strings.CutSuffix(mid, r.Suffix)
	num, err := strconv.ParseUint(mid, 10, 63)
	if !ok || !ok2 || err != nil || num < r.Lo || num-r.Lo >= uint64(r.Count) {
		return 0, false
	}
	return uint32(num - r.Lo), r.Host(uint32(num-r.Lo)) == host
}
