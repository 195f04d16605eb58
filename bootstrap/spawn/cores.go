package spawn

import (
	"ibrun/internal/cpuset"
	"ibrun/topo"
)

// ownCores tells a rank that it may poll for a moment before it sleeps. What the user's side sets
// counts more.
const ownCores = "IBRUN_OWN_CORES=1"

// alone says which ranks of a node have cores that no other rank there may use. Polling would use
// a quota up, so none has where there is one.
func alone(m *topo.Machine, ranks []cpuset.Set) []bool {
	own := make([]bool, len(ranks))
	if m.Quota > 0 {
		return own
	}
	last := m.Online.Last()
	cores := make([]int, last+1) // of each CPU; 0: none is known
	for i, c := range m.Cores {
		for cpu := range c.CPUs.All() {
			if cpu <= last {
				cores[cpu] = i + 1
			}
		}
	}
	const nobody, several = -1, -2
	users := make([]int, len(m.Cores)+1)
	for i := range users {
		users[i] = nobody
	}
	each := func(rank int, f func(core int)) {
		for cpu := range ranks[rank].All() {
			if cpu <= last {
				f(cores[cpu])
			}
		}
	}
	for rank, cpus := range ranks {
		if cpus.Empty() { // it runs anywhere
			return own
		}
		each(rank, func(core int) {
			switch users[core] {
			case nobody, rank:
				users[core] = rank
			default:
				users[core] = several
			}
		})
	}
	for rank := range ranks {
		own[rank] = true
		each(rank, func(core int) { own[rank] = own[rank] && users[core] == rank })
	}
	return own
}
