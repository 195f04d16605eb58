package job

import "fmt"

// Want is how many ranks are asked for; zero values were not asked for.
type Want struct {
	Ranks   uint64 // -n
	PerNode uint64 // -ppn
	Offset  uint64 // slots to skip first, the TACC wrapper's -o
	Plane   uint64 // ranks are dealt so many at a time; 0: nodes are filled
	Each    bool   // each node gets a rank before nodes are filled, srun's way
	// Weight, if not nil, is what each host gets ranks in proportion to. Without
	// -n there is a rank for each hundred.
	Weight map[string]uint32
}

// Singles returns the table's nodes as runs of one.
func (n Nodes) singles() []Run {
	all := make([]Run, 0, n.Len())
	for r := range n.All() {
		for i := range r.Count {
			one := r
			one.Lo, one.Count = r.Lo+uint64(i), 1
			all = append(all, one)
		}
	}
	return all
}

// Unique joins what names the same host of the same user: its slots add up, a
// mention without slots being one, and it stays where it was named first.
func (n Nodes) Unique() Nodes {
	if len(n.Runs()) < 2 {
		return n
	}
	out := merge(n.singles(), func(to *Run, r Run) { to.Slots = max(to.Slots, 1) + max(r.Slots, 1) })
	if len(out) == n.Len() {
		return n
	}
	return NewNodes(n.base, out)
}

// Without leaves out the hosts for which drop says so.
func (n Nodes) Without(drop func(host string) bool) Nodes {
	var out []Run
	for _, r := range n.singles() {
		if !drop(r.Host(0)) {
			out = append(out, r)
		}
	}
	return NewNodes(n.base, out)
}

// Slots is the sum of the nodes' slots, a node without a number having one.
func (n Nodes) Slots() uint64 {
	total := uint64(0)
	for r := range n.All() {
		total += uint64(r.Count) * uint64(max(r.Slots, 1))
	}
	return total
}

// Crowded is the first node that has more ranks than slots, if there is one. A node without a
// number of slots has one.
func (n Nodes) Crowded() (Node, bool) {
	first := 0
	for r := range n.All() {
		if r.Ranks > max(r.Slots, 1) {
			return n.At(first), true
		}
		first += int(r.Count)
	}
	return Node{}, false
}

// Place gives ranks to the nodes of an allocation, in order and in contiguous
// ranges. Nodes that get none are left out. over says that there are more
// ranks than slots that somebody wrote down.
//
//	-n not above the slots     nodes are filled in order
//	-n above the slots         each node gets its share by slots, the first
//	                           nodes one more where it does not come out even
//	-ppn                       so many on each node, in order
//	--map-by node, cyclic      dealt, up to -ppn or the slots
//	--map-by load              in proportion to what is free
func Place(alloc Nodes, want Want) (placed Nodes, over bool, err error) {
	alloc, err = alloc.skip(want.Offset)
	if err != nil {
		return Nodes{}, false, err
	}
	written := false
	for r := range alloc.All() {
		written = written || r.Slots > 0
	}
	weight := func(r Run) uint64 { return uint64(max(r.Slots, 1)) }
	switch {
	case want.Weight != nil:
		one := alloc.singles()
		for i := range one {
			one[i].Slots = want.Weight[one[i].Host(0)]
		}
		alloc, written = NewNodes(0, one), false
		weight = func(r Run) uint64 { return uint64(r.Slots) }
	case want.PerNode > 0:
		weight = func(Run) uint64 { return want.PerNode }
	}
	total := uint64(0)
	for r := range alloc.All() {
		total += uint64(r.Count) * weight(r)
	}
	ranks := want.Ranks
	if ranks == 0 {
		ranks = total
		if want.Weight != nil {
			ranks = max(1, total/100)
		}
	}
	if ranks > MaxRanks {
		return Nodes{}, false, fmt.Errorf("%d ranks: at most %d are possible", ranks, MaxRanks)
	}
	switch {
	case want.Weight != nil && total > 0:
		placed = alloc.share(ranks, total, weight)
	case ranks <= total && want.Plane > 0:
		placed = alloc.deal(ranks, want.Plane, weight)
	case ranks <= total && want.Each && ranks >= uint64(alloc.Len()):
		placed = alloc.fill(ranks, 1, weight)
	case ranks <= total:
		placed = alloc.fill(ranks, 0, weight)
	default:
		placed = alloc.share(ranks, total, weight)
	}
	for r := range placed.All() {
		if r.Ranks > MaxRanksOnNode {
			return Nodes{}, false, fmt.Errorf("%d ranks on %s: at most %d are possible on one host", r.Ranks, r.Host(0),
				MaxRanksOnNode)
		}
	}
	return placed, written && ranks > alloc.Slots(), nil
}

// skip takes slots away from the front of the allocation.
func (n Nodes) skip(slots uint64) (Nodes, error) {
	if slots == 0 {
		return n, nil
	}
	if have := n.Slots(); slots >= have {
		return Nodes{}, fmt.Errorf("offset -o %d leaves nothing of %d slots", slots, have)
	}
	var out []Run
	for _, r := range n.singles() {
		s := uint64(max(r.Slots, 1))
		if slots >= s {
			slots -= s
			continue
		}
		r.Slots, slots = uint32(s-slots), 0
		out = append(out, r)
	}
	return NewNodes(0, out), nil
}

// fill gives each node the minimum number of ranks. It then gives each node in turn ranks up to its weight, until all
// ranks are placed.
func (n Nodes) fill(ranks, minimum uint64, weight func(Run) uint64) Nodes {
	left := ranks - minimum*uint64(n.Len())
	var out []Run
	for r := range n.All() {
		more, full := weight(r)-minimum, uint64(r.Count)
		if more > 0 {
			full = min(full, left/more)
		}
		out = append(out, r.part(0, full, more+minimum))
		left -= full * more
		if full < uint64(r.Count) && left > 0 {
			out = append(out, r.part(full, 1, left+minimum))
			full, left = full+1, 0
		}
		if minimum > 0 {
			out = append(out, r.part(full, uint64(r.Count)-full, minimum))
		}
	}
	return NewNodes(0, out)
}

// share gives each node ranks in proportion to its weight; what is left over
// goes to the first nodes, one each.
func (n Nodes) share(ranks, total uint64, weight func(Run) uint64) Nodes {
	given := uint64(0)
	for r := range n.All() {
		given += uint64(r.Count) * (ranks * weight(r) / total)
	}
	left := ranks - given // less than the number of nodes
	var out []Run
	for r := range n.All() {
		base := ranks * weight(r) / total
		more := min(left, uint64(r.Count))
		out = append(out, r.part(0, more, base+1))
		if base > 0 {
			out = append(out, r.part(more, uint64(r.Count)-more, base))
		}
		left -= more
	}
	return NewNodes(0, out)
}

// part is a stretch of a run with so many ranks on each node.
func (r Run) part(from, count, ranks uint64) Run {
	p := r
	p.Lo, p.Count, p.Ranks = r.Lo+from, uint32(count), uint32(ranks)
	return p
}
