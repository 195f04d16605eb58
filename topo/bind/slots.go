package bind

import (
	"fmt"

	"ibrun/internal/cpuset"
	"ibrun/topo"
)

// slotted gives rank i the cores of the i-th word of a rank file, with all their CPUs. Cores and
// packages are counted as hwloc does, whether they are allowed or not.
func slotted(m *topo.Machine, words []string, ranks int) ([]cpuset.Set, error) {
	sets := make([]cpuset.Set, ranks)
	for i := range sets {
		if i >= len(words) {
			return nil, fmt.Errorf("rank file: %d ranks and %d places", ranks, len(words))
		}
		slots, err := ParseSlots(words[i])
		if err != nil {
			return nil, fmt.Errorf("rank file: %w", err)
		}
		for _, s := range slots {
			cores, where, err := coresOf(m, s.Package)
			if err != nil {
				return nil, err
			}
			first, end := s.First, s.First+s.Count
			if s.Count == 0 {
				end = len(cores)
			}
			if end > len(cores) {
				return nil, fmt.Errorf("rank file: slot %s: %s has cores 0-%d", words[i], where, len(cores)-1)
			}
			for _, cpus := range cores[first:end] {
				sets[i] = sets[i].Or(cpus)
			}
		}
		if sets[i] = sets[i].And(m.Allowed); sets[i].Empty() {
			return nil, fmt.Errorf("rank file: slot %s: none of its CPUs is allowed on this node, which allows %s",
				words[i], m.Allowed)
		}
	}
	return sets, nil
}

// coresOf are the cores of a package, or for -1 of the node.
func coresOf(m *topo.Machine, number int) (cores []cpuset.Set, where string, err error) {
	where = "this node"
	in := m.Online
	if number >= 0 {
		if number >= len(m.Packages) {
			return nil, "", fmt.Errorf("rank file: no package %d: this node has packages 0-%d", number,
				len(m.Packages)-1)
		}
		where, in = fmt.Sprintf("package %d", number), m.Packages[number].CPUs
	}
	for _, c := range m.Cores {
		if c.CPUs.Meets(in) {
			cores = append(cores, c.CPUs)
		}
	}
	return cores, where, nil
}
