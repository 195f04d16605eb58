package bind

import (
	"ibrun/internal/cpuset"
	"ibrun/topo"
)

// memory knows which NUMA nodes are near which CPUs.
type memory struct {
	all    []topo.Memory
	in     topo.Index
	usable []bool // in the order of all
}

func newMemory(m *topo.Machine) *memory {
	near := &memory{all: m.Memories, in: inMemories(m), usable: make([]bool, len(m.Memories))}
	full := false // some NUMA node that is allowed is known to have memory
	for _, n := range m.Memories {
		full = full || n.Bytes > 0 && m.AllowedMems.Has(n.ID)
	}
	for i, n := range m.Memories {
		near.usable[i] = m.AllowedMems.Has(n.ID) && (n.Bytes > 0 || !full)
	}
	return near
}

// inMemories tells in which of Machine.Memories each CPU is.
func inMemories(m *topo.Machine) topo.Index {
	var objects []topo.Object
	for _, n := range m.Memories {
		objects = append(objects, n.Object)
	}
	return topo.NewIndex(objects)
}

// of is where a rank's memory comes from: the NUMA nodes of its CPUs that have
// any and are allowed; if there is none, the one nearest to the first of its
// CPUs. It is nothing for a rank that is not bound.
func (near *memory) of(cpus cpuset.Set) (mems cpuset.Set, interleave bool) {
	first := -1
	for cpu := range cpus.All() {
		i := near.in.Of(cpu)
		if i < 0 {
			continue
		}
		if first < 0 {
			first = i
		}
		if near.usable[i] {
			mems.Add(near.all[i].ID)
		}
	}
	if n := near.nearest(first); mems.Empty() && n >= 0 {
		mems.Add(near.all[n].ID)
	}
	return mems, mems.Len() > 1
}

// nearest is the usable NUMA node at the least distance from one, of equal
// ones the first; -1 if there is none. Where distances are not known, all are
// the same.
func (near *memory) nearest(from int) int {
	best := -1
	if from < 0 {
		return best
	}
	far := func(i int) int {
		if d := near.all[from].Distance; i < len(d) {
			return d[i]
		}
		return 0
	}
	for i, ok := range near.usable {
		if ok && (best < 0 || far(i) < far(best)) {
			best = i
		}
	}
	return best
}
