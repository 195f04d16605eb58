package job

import (
	"cmp"
	"fmt"
)

// Group is programs that share a list of hosts.
type Group struct {
	Alloc Nodes
	Ranks uint64
}

// key is what tells hosts apart.
type key struct{ host, user string }

// Union is all hosts of some lists, each once: it has as many slots as the list that says most, and
// the HCA that the first says.
func Union(lists []Nodes) Nodes {
	if len(lists) == 1 {
		return lists[0]
	}
	var all []Run
	for _, n := range lists {
		all = append(all, n.singles()...)
	}
	return NewNodes(0, merge(all, func(to *Run, r Run) {
		to.Slots = max(to.Slots, r.Slots)
		to.HCA = cmp.Or(to.HCA, r.HCA)
	}))
}

// merge returns runs with one run for each host and user. It calls join to add a later run of the same host and user to
// the first one. Each run must have one node.
func merge(runs []Run, join func(to *Run, r Run)) (out []Run) {
	at := map[key]int{}
	for _, r := range runs {
		k := key{r.Host(0), r.User}
		if i, again := at[k]; again {
			join(&out[i], r)
			continue
		}
		at[k] = len(out)
		out = append(out, r)
	}
	return out
}

// slots are those of one host.
type slots struct {
	at   int // in the table
	have uint64
	used uint64
}

// PlaceEach gives ranks to the nodes of several lists: to each group on its own, the first ranks to
// the first. A host that several lists name has as many slots as the list that says most, of which
// a group takes those that are left, up to its own number, as long as there are enough for it.
// plane is how ranks are numbered over the nodes of their group. Nodes are in the order of their
// first rank.
func PlaceEach(groups []Group, want Want, plane uint32) (placed Nodes, layout Layout, over bool, err error) {
	hosts := map[key]*slots{}
	of := func(r Run) *slots { return hosts[key{r.Host(0), r.User}] }
	written := false
	var lists []Nodes
	for _, g := range groups {
		lists = append(lists, g.Alloc)
	}
	for _, r := range Union(lists).singles() {
		hosts[key{r.Host(0), r.User}] = &slots{at: -1, have: uint64(max(r.Slots, 1))}
		written = written || r.Slots > 0
	}
	var table []Run
	var nodes []NodeIndex // of each rank
	for _, g := range groups {
		alloc := g.Alloc
		if want.PerNode == 0 {
			alloc = alloc.left(g.Ranks, func(r Run) uint64 {
				return min(uint64(max(r.Slots, 1)), of(r).have-min(of(r).have, of(r).used))
			})
		}
		want.Ranks = g.Ranks
		part, _, err := Place(alloc, want)
		if err != nil {
			return Nodes{}, Layout{}, false, err
		}
		dealt := part.Layout().Dealt(plane)
		there := make([]NodeIndex, 0, part.Len()) // where in the table
		for _, r := range part.singles() {
			h := of(r)
			if h.at < 0 {
				h.at = len(table)
				one := r
				one.Ranks, one.Slots = 0, uint32(h.have)
				table = append(table, one)
			}
			table[h.at].Ranks += r.Ranks
			h.used += uint64(r.Ranks)
			over = over || written && h.used > h.have
			there = append(there, NodeIndex(h.at))
		}
		own := make([]NodeIndex, dealt.Ranks())
		for slot := range Slot(dealt.Ranks()) {
			own[dealt.Rank(slot)] = there[dealt.NodeOf(slot)]
		}
		if nodes = append(nodes, own...); len(nodes) > MaxRanks {
			return Nodes{}, Layout{}, false, fmt.Errorf("%d ranks: at most %d are possible", len(nodes), MaxRanks)
		}
	}
	placed = NewNodes(0, table)
	return placed, placed.Layout().By(nodes), over, nil
}

// left are the nodes with the slots that are left of them, if there are enough for the ranks;
// else all of them.
func (n Nodes) left(ranks uint64, slots func(Run) uint64) Nodes {
	var some []Run
	total := uint64(0)
	for _, r := range n.singles() {
		if s := slots(r); s > 0 {
			r.Slots = uint32(s)
			total += s
			some = append(some, r)
		}
	}
	if total < ranks {
		return n
	}
	return NewNodes(n.base, some)
}

// PlaceAt gives each rank the node of an allocation, by its index. Nodes are in the order of their
// first rank.
func PlaceAt(alloc Nodes, at []uint32) (placed Nodes, layout Layout) {
	where := map[uint32]int{}
	var table []Run
	nodes := make([]NodeIndex, len(at))
	for rank, i := range at {
		k, ok := where[i]
		if !ok {
			k = len(table)
			where[i] = k
			one := alloc.Slice(int(i), int(i)+1).Runs()[0]
			one.Ranks = 0
			table = append(table, one)
		}
		table[k].Ranks++
		nodes[rank] = NodeIndex(k)
	}
	placed = NewNodes(0, table)
	return placed, placed.Layout().By(nodes)
}
