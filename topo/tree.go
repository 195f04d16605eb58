package topo

import (
	"slices"
	"sort"

	"ibrun/internal/cpuset"
)

// level is some disjoint objects, with the index of the one that each CPU is in.
type level struct {
	objects []Object
	of      []int // by CPU; -1: none
}

func levelOf(objects []Object) level {
	l := level{objects: objects}
	for i, o := range objects {
		for cpu := range o.CPUs.All() {
			for cpu >= len(l.of) {
				l.of = append(l.of, -1)
			}
			l.of[cpu] = i
		}
	}
	return l
}

// at is the object that a CPU is in.
func (l level) at(cpu int) (Object, bool) {
	if cpu >= len(l.of) || l.of[cpu] < 0 {
		return Object{}, false
	}
	return l.objects[l.of[cpu]], true
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
	of := levelOf(packages).of
	for _, n := range nodes {
		var met cpuset.Set // indices
		cut := false
		for cpu := range n.CPUs.All() {
			if i := of[cpu]; !met.Has(i) {
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

// order sorts objects as the tree has them, siblings by their lowest CPU.
func (m *Machine) order() {
	levels := [4]level{levelOf(m.Packages), levelOf(m.Objects(NUMA)), levelOf(m.L3s), levelOf(m.Cores)}
	// A CPU's way is the lowest CPU of each object that it is in, the largest
	// object first.
	type step struct{ size, first int }
	type way struct {
		cpu   int
		steps [len(levels)]step
	}
	ways := make([]way, 0, m.Online.Len())
	for cpu := range m.Online.All() {
		w := way{cpu: cpu}
		for i, l := range levels {
			w.steps[i] = step{1, cpu}
			if o, ok := l.at(cpu); ok {
				w.steps[i] = step{o.CPUs.Len(), o.CPUs.First()}
			}
		}
		slices.SortStableFunc(w.steps[:], func(a, b step) int { return b.size - a.size })
		ways = append(ways, w)
	}
	sort.Slice(ways, func(i, j int) bool {
		a, b := &ways[i], &ways[j]
		for k := range a.steps {
			if a.steps[k].first != b.steps[k].first {
				return a.steps[k].first < b.steps[k].first
			}
		}
		return a.cpu < b.cpu
	})
	rank := make([]int, m.Online.Last()+1)
	for i, w := range ways {
		rank[w.cpu] = i
	}
	// The CPUs of an object have neighbouring ranks, so that any of them will do.
	for _, objects := range [][]Object{m.Packages, m.Dies, m.L3s, m.Cores} {
		sort.Slice(objects, func(i, j int) bool {
			return rank[objects[i].CPUs.First()] < rank[objects[j].CPUs.First()]
		})
	}
}
