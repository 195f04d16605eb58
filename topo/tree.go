package topo

import (
	"slices"

	"ibrun/internal/cpuset"
)

// Index maps each CPU number to the index of the object with this CPU in a list of disjoint objects, or to -1 if no
// object has it.
type Index []int

// NewIndex returns the index of a list of objects.
func NewIndex(objects []Object) (in Index) {
	for i, o := range objects {
		for cpu := range o.CPUs.All() {
			for cpu >= len(in) {
				in = append(in, -1)
			}
			if in[cpu] < 0 {
				in[cpu] = i
			}
		}
	}
	return in
}

// Of returns the index in the list of the object that contains a CPU, or -1 if there is none.
func (in Index) Of(cpu int) int {
	if cpu < 0 || cpu >= len(in) {
		return -1
	}
	return in[cpu]
}

// level is a list of disjoint objects and the Index of the list.
type level struct {
	objects []Object
	in      Index
}

func levelOf(objects []Object) level { return level{objects, NewIndex(objects)} }

// at is the object that a CPU is in.
func (l level) at(cpu int) (Object, bool) {
	if i := l.in.Of(cpu); i >= 0 {
		return l.objects[i], true
	}
	return Object{}, false
}

// crossing reports whether two objects share CPUs without one holding the other.
func crossing(a, b Object) bool {
	return a.CPUs.Meets(b.CPUs) && !a.CPUs.In(b.CPUs) && !b.CPUs.In(a.CPUs)
}

// agree makes a tree of NUMA nodes, packages, cores and caches: of two, one holds
// the other or they share nothing. Packages that a node cuts through are taken
// for one, cores that cross anything are divided, caches are dropped.
func (r *reader) agree(m *Machine) {
	nodes := m.Objects(NUMA)
	for joined := true; joined; {
		m.Packages, joined = r.join(m.Packages, nodes)
	}
	inPackages, inNodes := levelOf(m.Packages), levelOf(nodes)
	m.Cores = r.divide(m.Cores, inPackages, "package")
	m.Cores = r.divide(m.Cores, inNodes, "NUMA node")
	inCores := levelOf(m.Cores)
	m.L3s = slices.DeleteFunc(m.L3s, func(c Object) bool {
		return r.crosses(cache, c, inPackages, "package", false) || r.crosses(cache, c, inNodes, "NUMA node", true) ||
			r.crosses(cache, c, inCores, "core", true)
	})
	m.Dies = r.dies(m)
}

const cache = "last-level cache"

// join makes one package of all that meet a node which cuts one of them.
func (r *reader) join(packages, nodes []Object) (fewer []Object, joined bool) {
	in := NewIndex(packages)
	for _, n := range nodes {
		var met cpuset.Set // indices
		cut := false
		for cpu := range n.CPUs.All() {
			if i := in.Of(cpu); !met.Has(i) {
				met.Add(i)
				cut = cut || crossing(packages[i], n)
			}
		}
		if !cut {
			continue
		}
		r.note("NUMA node %d holds parts of packages: these are taken as one", n.ID)
		one := Object{ID: -1}
		for i, p := range packages {
			if met.Has(i) {
				one.CPUs = one.CPUs.Or(p.CPUs)
			} else {
				fewer = append(fewer, p)
			}
		}
		return append(fewer, one), true
	}
	return packages, false
}

// divide cuts cores at the borders of larger objects, which hold every CPU.
func (r *reader) divide(cores []Object, borders level, what string) []Object {
	parts := make([]Object, 0, len(cores))
	for _, core := range cores {
		for id, rest := core.ID, core.CPUs; !rest.Empty(); id = -1 {
			within, _ := borders.at(rest.First())
			part := rest.And(within.CPUs)
			rest = rest.Without(part)
			if !part.Equal(core.CPUs) {
				r.note("the core of CPU %d reaches into another %s: divided", core.CPUs.First(), what)
			}
			parts = append(parts, Object{id, part})
		}
	}
	return parts
}

// crosses reports whether a cache or die crosses an object of a level, or holds
// one where it must not.
func (r *reader) crosses(kind string, part Object, l level, what string, mayHold bool) bool {
	for cpu := range part.CPUs.All() {
		o, ok := l.at(cpu)
		if ok && !part.CPUs.In(o.CPUs) && !(mayHold && o.CPUs.In(part.CPUs)) {
			r.note("the %s of CPU %d reaches into another %s: left out", kind, part.CPUs.First(), what)
			return true
		}
	}
	return false
}

// order sorts the objects of each level by their position in the tree. Siblings are sorted by their lowest CPU.
func (m *Machine) order() {
	levels := [4]level{levelOf(m.Packages), levelOf(m.Objects(NUMA)), levelOf(m.L3s), levelOf(m.Cores)}
	// A CPU's way lists the lowest CPU of each object that contains the CPU, the largest object first. The
	// last element is the CPU itself.
	type way [len(levels) + 1]int
	ways := make([]way, 0, m.Online.Len())
	for cpu := range m.Online.All() {
		around := [len(levels) + 1]cpuset.Set{len(levels): cpuset.Of(cpu)}
		for i, l := range levels {
			around[i] = cpuset.Of(cpu)
			if o, ok := l.at(cpu); ok {
				around[i] = o.CPUs
			}
		}
		slices.SortStableFunc(around[:], func(a, b cpuset.Set) int { return b.Len() - a.Len() })
		var w way
		for i, cpus := range around {
			w[i] = cpus.First()
		}
		ways = append(ways, w)
	}
	slices.SortFunc(ways, func(a, b way) int { return slices.Compare(a[:], b[:]) })
	rank := make([]int, m.Online.Last()+1)
	for i, w := range ways {
		rank[w[len(levels)]] = i
	}
	// The CPUs of an object have neighbouring ranks, so that any of them will do.
	for _, objects := range [][]Object{m.Packages, m.Dies, m.L3s, m.Cores} {
		slices.SortFunc(objects, func(a, b Object) int { return rank[a.CPUs.First()] - rank[b.CPUs.First()] })
	}
}
