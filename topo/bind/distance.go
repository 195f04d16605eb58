package bind

import (
	"math"

	"ibrun/internal/cpuset"
	"ibrun/topo"
)

// Distances in the unit of the firmware's table (ACPI SLIT). The first two are
// the kernel's LOCAL_DISTANCE and REMOTE_DISTANCE (include/linux/topology.h),
// which it takes where there is no table.
const (
	localTo = 10
	remote  = 20
	unknown = math.MaxInt
)

// nearer makes a function that returns which of some devices are the nearest
// to a set of CPUs, in their order.
func nearer(m *topo.Machine, sites []topo.Place) func(cpus cpuset.Set) []int {
	homes := make([][]int, len(sites))
	for i, p := range sites {
		homes[i] = home(m, p)
	}
	return func(cpus cpuset.Set) (nearest []int) {
		least := unknown
		for i := range sites {
			d := distance(m, cpus, homes[i])
			if d < least {
				least, nearest = d, nil
			}
			if d == least {
				nearest = append(nearest, i)
			}
		}
		return nearest
	}
}

// distance is how far it is from the nearest of some CPUs to the nearest of a
// device's NUMA nodes: the minimum, since a rank on several nodes can be served
// by any. No CPUs, which is anywhere, are equally far from everything.
func distance(m *topo.Machine, cpus cpuset.Set, homes []int) int {
	least := unknown
	for i, from := range m.Memories {
		if !from.CPUs.Meets(cpus) {
			continue
		}
		for _, to := range homes {
			switch {
			case i == to:
				least = min(least, localTo)
			case to < len(from.Distance):
				least = min(least, from.Distance[to])
			default:
				least = min(least, remote)
			}
		}
	}
	return least
}

// home is where in Machine.Memories a device is: the node that the kernel says,
// those of the CPUs that it calls local, or else the nodes of the other devices
// below the same root bus, since a root bus belongs to one package. Empty: not
// known.
func home(m *topo.Machine, p topo.Place) []int {
	if len(m.Memories) == 1 {
		return []int{0}
	}
	if nodes := reported(m, p); nodes != nil || len(p.PCI) == 0 {
		return nodes
	}
	for _, h := range m.HCAs {
		if nodes := reported(m, h.Place); sameRoot(h.Place, p) && nodes != nil {
			return nodes
		}
	}
	for _, l := range m.Links {
		if nodes := reported(m, l.Place); sameRoot(l.Place, p) && nodes != nil {
			return nodes
		}
	}
	return nil
}

// reported is where in Machine.Memories the kernel says that a device is. Where it
// does not know, it calls all CPUs local.
func reported(m *topo.Machine, p topo.Place) (nodes []int) {
	tells := !m.Online.In(p.CPUs)
	for i, n := range m.Memories {
		if n.ID == p.NUMA || tells && n.CPUs.Meets(p.CPUs) {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

func sameRoot(a, b topo.Place) bool { return len(a.PCI) > 0 && a.PCI[0] == b.PCI[0] }
