package topotest

import (
	"cmp"
	"slices"

	"ibrun/internal/cpuset"
)

// Object is a part of a machine, with those of its CPUs that are online.
type Object struct {
	ID   int // the kernel's number; of a core, within its package
	CPUs cpuset.Set
}

// Layout is what a reader should find. Objects are in the order of the tree;
// those whose CPUs are all offline are left out, but not NUMA nodes.
type Layout struct {
	Present cpuset.Set
	Online  cpuset.Set
	Allowed cpuset.Set // of Online, by cgroup and affinity
	Cgroup  cpuset.Set // of Online, by cgroup alone
	Mems    cpuset.Set // NUMA nodes that may be used
	Slower  cpuset.Set // online CPUs of slow cores, if others are online too

	Cores, L2s, L3s, Dies, Packages []Object // an Old kernel does not tell of dies
	Memories                        []Object // NUMA nodes, by number; those for memory alone come last

	cpus []cpu // by number
}

// cpu is a present CPU and the objects around it.
type cpu struct {
	number                         int
	core, l2, l3, die, pkg, memory *Object // l3 and memory may be nil
	slow                           bool
}

// position is where a CPU is in the hardware.
type position struct{ pkg, core, thread int }

// Layout computes what the description says. It panics if Check does not like
// the description.
func (m Machine) Layout() Layout {
	if err := m.Check(); err != nil {
		panic(err)
	}
	return m.filled().layout()
}

// layout is Layout for counts that are filled in and make sense.
func (m Machine) layout() Layout {
	var l Layout
	positions := m.positions()
	number := numbering(positions, m.Order, m.CPUHoles)
	var cores, l2s, l3s, dies, pkgs, mems group
	for i, s := range positions {
		c := cpu{number: number[i], slow: m.slow(s.core)}
		l.Present.Add(c.number)
		// Of so many parts per package, this position's, counted over the machine.
		index := func(perPackage int) int { return s.pkg*perPackage + s.core*perPackage/m.CoresPerPackage }
		c.core = cores.at(index(m.CoresPerPackage), unholed(s.core, m.CoreHoles))
		c.l2 = l2s.number(index(m.CoresPerPackage/m.CoresPerL2), cpuset.Set{})
		c.die = dies.at(index(m.DiesPerPackage), s.core*m.DiesPerPackage/m.CoresPerPackage)
		c.pkg = pkgs.number(s.pkg, m.PackageHoles)
		if m.L3PerPackage != None {
			c.l3 = l3s.number(index(m.L3PerPackage), cpuset.Set{})
		}
		if m.NUMAPerPackage != None {
			c.memory = mems.number(index(m.NUMAPerPackage)/m.PackagesPerNUMA, m.NUMAHoles)
		}
		l.cpus = append(l.cpus, c)
	}
	if m.NUMAPerPackage != None {
		for range m.MemoryOnly {
			mems.number(len(mems), m.NUMAHoles)
		}
	}
	slices.SortFunc(l.cpus, func(a, b cpu) int { return a.number - b.number })
	l.fill(m.Offline)
	l.Cores, l.L2s, l.L3s = cores.used(), l2s.used(), l3s.used()
	l.Dies, l.Packages, l.Memories = dies.used(), pkgs.used(), mems.all()
	m.restrict(&l)
	return l
}

// fill puts the CPUs that are online into the objects around them.
func (l *Layout) fill(offline cpuset.Set) {
	l.Online = l.Present.Without(offline)
	for _, c := range l.cpus {
		if !l.Online.Has(c.number) {
			continue
		}
		for _, o := range []*Object{c.core, c.l2, c.l3, c.die, c.pkg, c.memory} {
			if o != nil {
				o.CPUs.Add(c.number)
			}
		}
		if c.slow {
			l.Slower.Add(c.number)
		}
	}
	if l.Slower.Equal(l.Online) {
		l.Slower = cpuset.Set{}
	}
}

// restrict finds what cgroup and affinity leave.
func (m Machine) restrict(l *Layout) {
	l.Cgroup = l.Online
	if !m.Allowed.Empty() {
		l.Cgroup = l.Online.And(m.Allowed)
	}
	l.Allowed = l.Cgroup
	if !m.Affinity.Empty() {
		l.Allowed = l.Cgroup.And(m.Affinity)
	}
	for _, o := range l.Memories {
		l.Mems.Add(o.ID)
	}
	if len(l.Memories) == 0 {
		l.Mems.Add(0)
	}
	if !m.AllowedMems.Empty() {
		l.Mems = l.Mems.And(m.AllowedMems)
	}
}

func (m Machine) slow(core int) bool { return core >= m.CoresPerPackage-m.SlowPerPackage }

// positions are all CPUs in the order of the hardware.
func (m Machine) positions() []position {
	var positions []position
	for p := range m.Packages {
		for c := range m.CoresPerPackage {
			threads := m.ThreadsPerCore
			if m.slow(c) {
				threads = 1
			}
			for t := range threads {
				positions = append(positions, position{p, c, t})
			}
		}
	}
	return positions
}

// numbering gives each position the kernel's number.
func numbering(positions []position, order Order, holes cpuset.Set) []int {
	sorted := slices.Clone(positions)
	slices.SortFunc(sorted, func(a, b position) int {
		switch order {
		case Split:
			return cmp.Or(a.thread-b.thread, a.pkg-b.pkg, a.core-b.core)
		case Cyclic:
			return cmp.Or(a.thread-b.thread, a.core-b.core, a.pkg-b.pkg)
		}
		return cmp.Or(a.pkg-b.pkg, a.core-b.core, a.thread-b.thread)
	})
	rank := make(map[position]int, len(sorted))
	next := 0
	for _, s := range sorted {
		for holes.Has(next) {
			next++
		}
		rank[s] = next
		next++
	}
	numbers := make([]int, len(positions))
	for i, s := range positions {
		numbers[i] = rank[s]
	}
	return numbers
}

// unholed is the number of the n-th thing, from 0, if some numbers are skipped.
func unholed(n int, holes cpuset.Set) int {
	for number := 0; ; number++ {
		if holes.Has(number) {
			continue
		}
		if n == 0 {
			return number
		}
		n--
	}
}

// group is the objects of one kind. Positions come in the order of the hardware, so
// a new object is always the next one.
type group []*Object

func (g *group) at(index, id int) *Object {
	if index == len(*g) {
		*g = append(*g, &Object{ID: id})
	}
	return (*g)[index]
}

func (g *group) number(index int, holes cpuset.Set) *Object {
	return g.at(index, unholed(index, holes))
}

func (g group) all() []Object {
	var all []Object
	for _, o := range g {
		all = append(all, *o)
	}
	return all
}

func (g group) used() []Object {
	return slices.DeleteFunc(g.all(), func(o Object) bool { return o.CPUs.Empty() })
}
