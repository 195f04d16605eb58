package bind

import (
	"slices"

	"ibrun/internal/cpuset"
	"ibrun/internal/job"
	"ibrun/topo"
)

// depths is the number of levels that a path has: package and NUMA node, the
// outer one first, then last-level cache, speed and core.
const depths = 5

// kinds is the number of kinds of objects that a piece can be in.
const kinds = job.Package + 1

// piece is what a rank gets whole: the allowed CPUs of a core, or one of them.
type piece struct {
	cpus   cpuset.Set
	thread int         // how many allowed CPUs of its core come before it
	path   [depths]int // from the outermost group to the core
	in     [kinds]int  // the number of the object of each kind that it is in
}

// tree is what a machine allows, in the order in which it is shared.
type tree struct {
	cores   []piece
	cpus    int                 // that are allowed
	objects [kinds][]cpuset.Set // allowed CPUs of each object, by number
	caches  bool                // whether there are caches that cores share
}

// numbers gives out 0, 1, 2 and so on as new keys come up.
type numbers map[[3]int]int

func (n numbers) of(a, b, c int) int {
	key := [3]int{a, b, c}
	if _, ok := n[key]; !ok {
		n[key] = len(n)
	}
	return n[key]
}

func newTree(m *topo.Machine) *tree {
	t := &tree{caches: len(m.L3s) > 0}
	inPackage, inNUMA, inL3 := topo.NewIndex(m.Packages), inMemories(m), topo.NewIndex(m.L3s)

	// The cores are in tree order, so objects get their numbers as cores first
	// touch them. Lists in another order do no harm.
	packages, numas, caches := numbers{}, numbers{}, numbers{}
	for i, c := range m.Cores {
		cpu := c.CPUs.First()
		p := packages.of(inPackage.Of(cpu), 0, 0)
		n := numas.of(inNUMA.Of(cpu), 0, 0)
		l := inL3.Of(cpu)
		if l < 0 {
			l = caches.of(-1, p, n) // a cache that no other core shares is not listed: such cores are together
		} else {
			l = caches.of(l, 0, 0)
		}
		speed := 0
		if m.Slower.Has(cpu) {
			speed = 1
		}
		core := piece{cpus: c.CPUs.And(m.Allowed), path: [depths]int{p, n, l, speed, i}}
		core.in[job.Core], core.in[job.L3], core.in[job.NUMA], core.in[job.Package] = i, l, n, p
		if !core.cpus.Empty() {
			t.cores = append(t.cores, core)
			t.cpus += core.cpus.Len()
		}
	}
	if holdsPackages(m) {
		for i := range t.cores {
			path := &t.cores[i].path
			path[0], path[1] = path[1], path[0]
		}
	}
	slices.SortStableFunc(t.cores, func(a, b piece) int { return slices.Compare(a.path[:], b.path[:]) })
	t.fill(len(m.Cores), len(caches), len(numas), len(packages))
	return t
}

// fill makes the objects of the cores that are in them. The lengths are for
// each kind from Core on.
func (t *tree) fill(lengths ...int) {
	for i, n := range lengths {
		kind := job.Core + job.Object(i)
		t.objects[kind] = make([]cpuset.Set, n)
		for _, c := range t.cores {
			object := &t.objects[kind][c.in[kind]]
			*object = object.Or(c.cpus)
		}
	}
}

// holdsPackages reports whether NUMA nodes are the outer objects: a NUMA node has several packages, and no package has
// several NUMA nodes.
func holdsPackages(m *topo.Machine) (holds bool) {
	for _, p := range m.Packages {
		for _, n := range m.Memories {
			switch {
			case !p.CPUs.Meets(n.CPUs):
			case !p.CPUs.In(n.CPUs):
				return false
			case !n.CPUs.In(p.CPUs):
				holds = true
			}
		}
	}
	return holds
}

// threads are the CPUs of cores, in the order of the cores.
func threads(cores []piece) (all []piece) {
	for _, c := range cores {
		n := 0
		for cpu := range c.cpus.All() {
			t := c
			t.cpus, t.thread = cpuset.Of(cpu), n
			all = append(all, t)
			n++
		}
	}
	return all
}

// within are the cores of each object of a kind that allows any, in tree
// order, and for HWThread the CPUs; all cores together for what is no part of
// the machine.
func (t *tree) within(kind job.Object) (groups [][]piece) {
	switch {
	case kind == job.HWThread:
		for _, cpu := range threads(t.cores) {
			groups = append(groups, []piece{cpu})
		}
		return groups
	case kind < job.Core:
		return [][]piece{t.cores}
	}
	place := map[int]int{}
	for _, c := range t.cores {
		i, ok := place[c.in[kind]]
		if !ok {
			i = len(groups)
			place[c.in[kind]] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}
