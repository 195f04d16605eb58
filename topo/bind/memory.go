package bind

import (
	"slices"

	"ibrun/internal/cpuset"
	"ibrun/topo"
)

// memory knows which NUMA nodes are near which CPUs.
type memory struct {
	all    []topo.Memory
	in     topo.Index
	usable []int // indices in the list all
}

func newMemory(m *topo.Machine) *memory {
	near := &memory{all: m.Memories, in: inMemories(m)}
	full := false // some NUMA node that is allowed is known to have memory
	for _, n := range m.Memories {
		full = full || n.Bytes > 0 && m.AllowedMems.Has(n.ID)
	}
	for i, n := range m.Memories {
		if m.AllowedMems.Has(n.ID) && (n.Bytes > 0 || !full) {
			near.usable = append(near.usable, i)
		}
	}
	return near
}

// inMemories returns the index of Machine.Memories by CPU.
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
		if slices.Contains(near.usable, i) {
			mems.Add(near.all[i].ID)
		}
	}
	if mems.Empty() && first >= 0 && len(near.usable) > 0 {
		mems.Add(near.all[near.nearest(first)].ID)
	}
	return mems, mems.Len() > 1
}

// nearest returns the usable NUMA node nearest to the NUMA node from. Both are indices in the list all. If several have
// the same distance, it returns the first. All unknown distances are equal. At least one NUMA node must be
// usable.
func (near *memory) nearest(from int) int {
	far := func(i int) int {
		if d := near.all[from].Distance; i < len(d) {
			return d[i]
		}
		return 0
	}
	return slices.MinFunc(near.usable, func(a, b int) int { return far(a) - far(b) })
}
