package show

import (
	"fmt"
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
	last := where{}
	for cores := m.Cores; len(cores) > 0; {
		w, n := placed(m, cores[0]), 1
		for n < len(cores) && placed(m, cores[n]) == w {
			n++
		}
		switch {
		case b.Len() == 0:
			b.WriteByte('[')
		case w.pkg != last.pkg:
			b.WriteString("][")
		case w.numa != last.numa:
			b.WriteByte('|')
		}
		if m.Online.Len() > singly {
			b.WriteString(word(m, cpus, cores[:n]))
		} else {
			b.WriteString(letters(m, cpus, cores[:n]))
		}
		last, cores = w, cores[n:]
	}
	return b.String() + "]"
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
