package show

import (
	"fmt"
	"slices"
	"strings"

	"ibrun/internal/cpuset"
	"ibrun/topo"
)

// singly is how many CPUs a binding is drawn with a letter each for.
const singly = 128

// Binding is one line that shows which CPUs of a machine are in a set, such as
// the place of a rank:
//
//	[BB/..|../..][--/--|--/--]
//
// A bracket is a package, | is between its NUMA nodes, / between cores, and a
// letter is a CPU: B is in the set, - may not be used by this process, . is
// any other. Numbers in the set that are no online CPU of the machine are not
// drawn. The order is that of Machine.Cores.
//
// A machine with more than 128 CPUs has one word per NUMA node of a package:
//
//	[B|3/16|.|.][-|-|-|-]
//
// B: all CPUs that may be used are in the set; 3/16: of 16 cores that may be
// used, CPUs of 3 are; . none; - none may be used.
func Binding(m *topo.Machine, cpus cpuset.Set) string {
	var b strings.Builder
	pkg, numa := -1, -1
	for cores := m.Cores; len(cores) > 0; {
		p, n := places(m, cores[0])
		end := 1
		for end < len(cores) {
			if p2, n2 := places(m, cores[end]); p2 != p || n2 != n {
				break
			}
			end++
		}
		switch {
		case b.Len() == 0:
			b.WriteByte('[')
		case p != pkg:
			b.WriteString("][")
		case n != numa:
			b.WriteByte('|')
		}
		if m.Online.Len() > singly {
			b.WriteString(word(m, cpus, cores[:end]))
		} else {
			b.WriteString(letters(m, cpus, cores[:end]))
		}
		pkg, numa, cores = p, n, cores[end:]
	}
	return b.String() + "]"
}

// places are the package and the NUMA node that a core is in, as indices.
func places(m *topo.Machine, core topo.Object) (pkg, numa int) {
	cpu := core.CPUs.First()
	return slices.IndexFunc(m.Packages, func(o topo.Object) bool { return o.CPUs.Has(cpu) }),
		slices.IndexFunc(m.Memories, func(o topo.Memory) bool { return o.CPUs.Has(cpu) })
}

// letters are cores with a letter for each CPU.
func letters(m *topo.Machine, cpus cpuset.Set, cores []topo.Object) string {
	var b strings.Builder
	for i, core := range cores {
		if i > 0 {
			b.WriteByte('/')
		}
		for cpu := range core.CPUs.All() {
			switch {
			case cpus.Has(cpu):
				b.WriteByte('B')
			case !m.Allowed.Has(cpu):
				b.WriteByte('-')
			default:
				b.WriteByte('.')
			}
		}
	}
	return b.String()
}

// word is cores summed up.
func word(m *topo.Machine, cpus cpuset.Set, cores []topo.Object) string {
	bound, usable, all := 0, 0, true
	for _, core := range cores {
		allowed := core.CPUs.And(m.Allowed)
		all = all && allowed.In(cpus)
		if core.CPUs.Meets(cpus) {
			bound++
		}
		if !allowed.Empty() || core.CPUs.Meets(cpus) {
			usable++
		}
	}
	switch {
	case usable == 0:
		return "-"
	case bound == 0:
		return "."
	case all:
		return "B"
	}
	return fmt.Sprintf("%d/%d", bound, usable)
}
