package bind

import (
	"errors"
	"fmt"

	"ibrun/internal/cpuset"
	"ibrun/topo"
)

// listed gives rank i the i-th of the user's lists, and begins again after the
// last one. Lists that no rank gets are not looked at. The user may well give
// a CPU to several ranks.
func listed(m *topo.Machine, lists []string, ranks int) ([]cpuset.Set, error) {
	sets := make([]cpuset.Set, ranks)
	for i := range sets {
		cpus, err := cpuset.ParseList(lists[i%len(lists)])
		if err != nil {
			return nil, fmt.Errorf("--cpu-bind: %w", err)
		}
		if cpus.Empty() {
			return nil, errors.New("--cpu-bind: a list without CPUs: write map_cpu:0,2 or mask_cpu:0x3,0xc")
		}
		if off := cpus.Without(m.Online); !off.Empty() {
			return nil,
				fmt.Errorf("--cpu-bind: no CPU %s runs on this node, which has %s: the numbers are the kernel's, as "+
					"in /proc/cpuinfo", off, m.Online)
		}
		if not := cpus.Without(m.Allowed); !not.Empty() {
			return nil,
				fmt.Errorf("--cpu-bind: CPU %s is not allowed here, by a cgroup or the affinity that ibrun was "+
					"started with: write some of %s", not, m.Allowed)
		}
		sets[i] = cpus
	}
	return sets, nil
}
