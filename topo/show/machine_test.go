package show

import (
	"fmt"

	"ibrun/internal/cpuset"
	"ibrun/topo"
	"ibrun/topo/hwloctest"
)

// ranger is a node of four quad-core packages with a two-port HCA.
func ranger() *topo.Machine {
	m := hwloctest.Described("pack:4 core:4 mib:8192")
	m.Load = 0.25
	m.HCAs = []topo.HCA{{Name: "mlx4_0", Place: topo.Place{NUMA: 1}, Ports: []topo.Port{
		{Number: 1, State: "ACTIVE", Physical: "LinkUp", Layer: "InfiniBand", LID: 0x3a4, Rate: 16},
		{Number: 2, State: "DOWN", Physical: "Polling", Layer: "InfiniBand", Rate: 10},
	}}}
	m.Links = []topo.Link{
		{Name: "eth0", Place: topo.Place{NUMA: -1}, Up: true, MTU: 1500, Speed: 1000, Type: 1},
		{Name: "eth1", Place: topo.Place{NUMA: -1}, MTU: 1500, Type: 1},
		{Name: "ib0", Place: topo.Place{NUMA: 1}, Up: true, MTU: 65520, Type: 32},
		{Name: "lo", Place: topo.Place{NUMA: -1}, Up: true, Loopback: true, Virtual: true, Type: 772},
	}
	return m
}

// rome has two packages of four NUMA nodes, eight cores of two threads in each.
func rome() *topo.Machine {
	m := hwloctest.Described("pack:2 numa:4 l3:8 core:32 pu:2 order:split mib:65536")
	m.HCAs = []topo.HCA{{Name: "mlx5_0", Place: topo.Place{NUMA: 2}, Ports: []topo.Port{{
		Number: 1, State: "ACTIVE", Layer: "Ethernet", Rate: 200,
		GIDs: []topo.GID{{Link: "ens1"}, {Index: 1, Link: "ens1"}, {Index: 2, Link: "ens1.7"}},
	}}}}
	return m
}

// hybrid has four cores of two threads and eight slower ones in clusters.
func hybrid() *topo.Machine { return hwloctest.Described("core:12 slow:8 pu:2 mib:16384") }

// holes has two packages, some CPUs offline and some forbidden, and memory of
// its own beside them.
func holes() *topo.Machine {
	object := func(id int, cpus ...int) topo.Object { return topo.Object{ID: id, CPUs: cpuset.Of(cpus...)} }
	return &topo.Machine{
		Cores:    []topo.Object{object(0, 0, 8), object(1, 9), object(0, 4, 12), object(1, 5)},
		Packages: []topo.Object{object(0, 0, 8, 9), object(3, 4, 5, 12)},
		Memories: []topo.Memory{
			{Object: object(0, 0, 8, 9), Bytes: 4 << 30}, {Object: object(1, 4, 5, 12), Bytes: 512 << 20},
			{Object: object(7), Bytes: 1 << 40},
		},
		Online: cpuset.Of(0, 4, 5, 8, 9, 12), Allowed: cpuset.Of(0, 4, 5, 9), AllowedMems: cpuset.Of(0, 7),
		Quota: 1.5, MemoryLimit: 1 << 30, Load: -1,
		Notes: []string{"sys/devices/system/cpu/cpu7/topology/core_id holds \"x\", which is no number"},
	}
}

// flat is one CPU of which nothing is known.
func flat() *topo.Machine {
	one := topo.Object{ID: -1, CPUs: cpuset.Of(0)}
	return &topo.Machine{
		Cores: []topo.Object{one}, Packages: []topo.Object{one},
		Memories: []topo.Memory{{Object: topo.Object{CPUs: one.CPUs}}},
		Online:   one.CPUs, Allowed: one.CPUs, AllowedMems: cpuset.Of(0), Load: -1,
	}
}

// big has 8 packages, 256 CPUs, 64 functions of an HCA and 1,000 interfaces
// without hardware.
func big() *topo.Machine {
	m := hwloctest.Described("pack:8 core:16 pu:2 order:split mib:8192")
	for i := range 64 {
		m.HCAs = append(m.HCAs, topo.HCA{Name: fmt.Sprintf("mlx5_%d", i), Place: topo.Place{NUMA: 3},
			Ports: []topo.Port{
				{Number: 1, State: "DOWN", Physical: "Disabled", Layer: "InfiniBand"},
			}})
	}
	for i := range 1000 {
		m.Links = append(m.Links, topo.Link{Name: fmt.Sprintf("veth%d", i), Place: topo.Place{NUMA: -1}, Virtual: true,
			Up: i%2 == 0, Type: 1})
	}
	return m
}

// interleaved is a large machine whose CPUs take turns between packages, under
// caches larger than NUMA nodes.
func interleaved() *topo.Machine {
	return hwloctest.Described("pack:2 numa:2 core:96 order:cyclic mib:262144")
}

// undivided has two packages in one NUMA node.
func undivided() *topo.Machine {
	m := hwloctest.Described("pack:2 numa:1/2 l3:none core:2 mib:8192")
	m.HCAs = []topo.HCA{{Name: "hfi1_0"}}
	return m
}
