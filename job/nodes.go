package job

import (
	"fmt"
	"slices"
	"sort"
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
	First           uint32 // first rank on the node
}

// Nodes is a table of nodes in rank order: node i+1 holds the ranks that
// follow node i's. It is kept as runs, so its size follows the number of
// distinct name patterns and not the number of nodes. The zero value is empty.
// Nodes is a value: no method changes it, and slices share nothing mutable.
type Nodes struct {
	runs  []Run
	base  uint32   // first rank of the first node
	nodes []uint32 // nodes before run i, with a closing total
	ranks []uint32 // ranks before run i, relative to base, with a closing total
}

// NewNodes makes a table whose first node's first rank is base. Runs that
// continue each other are joined and runs of no nodes are left out, so equal
// tables have equal runs. The slice is copied.
func NewNodes(base uint32, runs []Run) Nodes {
	n := Nodes{base: base}
	for _, r := range runs {
		if r.Count == 0 {
			continue
		}
		if last := len(n.runs) - 1; last >= 0 && n.runs[last].continues(r) {
			n.runs[last].Count += r.Count
			continue
		}
		n.runs = append(n.runs, r)
	}
	n.sum()
	return n
}

// continues reports whether r is a plain continuation of a.
func (a Run) continues(r Run) bool {
	next := a
	next.Lo, next.Count = a.Lo+uint64(a.Count), r.Count
	return next == r && a.Width > 0
}

func (n *Nodes) sum() {
	n.nodes = make([]uint32, len(n.runs)+1)
	n.ranks = make([]uint32, len(n.runs)+1)
	for i, r := range n.runs {
		n.nodes[i+1] = n.nodes[i] + r.Count
		n.ranks[i+1] = n.ranks[i] + r.Count*r.Ranks
	}
}

// Runs returns the table as runs. The caller must not change it.
func (n Nodes) Runs() []Run { return n.runs }

// Base is the first rank of the first node.
func (n Nodes) Base() uint32 { return n.base }

// Len is the number of nodes.
func (n Nodes) Len() int {
	if len(n.runs) == 0 {
		return 0
	}
	return int(n.nodes[len(n.runs)])
}

// Ranks is the number of ranks on all nodes together.
func (n Nodes) Ranks() uint32 {
	if len(n.runs) == 0 {
		return 0
	}
	return n.ranks[len(n.runs)]
}

// At returns node i, which must be in [0, Len()).
func (n Nodes) At(i int) Node {
	k := n.runOf(i)
	r, off := n.runs[k], uint32(i)-n.nodes[k]
	return Node{
		Host: r.Host(off), User: r.User, HCA: r.HCA, Slots: r.Slots, Ranks: r.Ranks,
		First: n.base + n.ranks[k] + off*r.Ranks,
	}
}

// runOf finds the run of node i.
func (n Nodes) runOf(i int) int {
	return sort.Search(len(n.runs), func(k int) bool { return int(n.nodes[k+1]) > i })
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
	first, last := n.runOf(lo), n.runOf(hi-1)
	runs := slices.Clone(n.runs[first : last+1])
	tail := &runs[len(runs)-1]
	tail.Count = uint32(hi) - n.nodes[last]
	cut := uint32(lo) - n.nodes[first]
	runs[0].Count -= cut
	runs[0].Lo += uint64(cut)
	s := Nodes{base: n.At(lo).First, runs: runs}
	s.sum()
	return s
}

// NodeOf returns the node that holds a rank, or -1 if none of these does.
func (n Nodes) NodeOf(rank uint32) int {
	if rank < n.base || rank-n.base >= n.Ranks() {
		return -1
	}
	off := rank - n.base
	k := sort.Search(len(n.runs), func(k int) bool { return n.ranks[k+1] > off })
	return int(n.nodes[k] + (off-n.ranks[k])/n.runs[k].Ranks)
}

// Index returns the first node with the given host name, or -1.
func (n Nodes) Index(host string) int {
	for k, r := range n.runs {
		if r.Width == 0 {
			if r.Prefix+r.Suffix == host {
				return int(n.nodes[k])
			}
			continue
		}
		mid, ok := strings.CutPrefix(host, r.Prefix)
		mid, ok2 := strings.CutSuffix(mid, r.Suffix)
		num, err := strconv.ParseUint(mid, 10, 63)
		if ok && ok2 && err == nil && num >= r.Lo && num-r.Lo < uint64(r.Count) && r.Host(uint32(num-r.Lo)) == host {
			return int(n.nodes[k]) + int(num-r.Lo)
		}
	}
	return -1
}
