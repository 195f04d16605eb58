package topo

import "ibrun/internal/cpuset"

// slower are the CPUs of cores that are slower than others of a hybrid machine.
// Intel's kernels name the kinds by their performance counters
// (arch/x86/events/intel); elsewhere the scheduler's capacity tells
// (drivers/base/arch_topology.c), or the highest frequency.
func (r *reader) slower(m *Machine) cpuset.Set {
	fast, _ := r.list("sys/devices/cpu_core/cpus")
	atom, _ := r.list("sys/devices/cpu_atom/cpus")
	low, _ := r.list("sys/devices/cpu_lowpower/cpus")
	if slow := atom.Or(low).And(m.Online).Without(fast); fast.Meets(m.Online) && !slow.Empty() {
		return slow
	}
	if slow := r.below(m, "/cpu_capacity"); !slow.Empty() {
		return slow
	}
	// Kernels give all cores of some hybrids, such as AMD's, the same capacity.
	return r.below(m, "/cpufreq/cpuinfo_max_freq")
}

// below are the CPUs of cores of which a file of the first CPU has less than
// four fifths of the highest value. Cores of one kind differ too: favoured ones
// turbo higher, by up to an eighth (3.5 and 4.0 GHz), while the slow kind of
// hybrids has three quarters of the fast kind's frequency or less. There are
// none where any core says nothing.
func (r *reader) below(m *Machine, file string) (slow cpuset.Set) {
	values := make([]int, len(m.Cores))
	top := 0
	for i, core := range m.Cores {
		value, ok := r.number(folder(core.CPUs.First()) + file)
		if !ok || value <= 0 || value > 1<<28 {
			return cpuset.Set{}
		}
		values[i], top = value, max(top, value)
	}
	for i, core := range m.Cores {
		if values[i]*5 < top*4 {
			slow = slow.Or(core.CPUs)
		}
	}
	return slow
}
