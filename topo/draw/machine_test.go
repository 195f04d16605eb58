package draw

import (
	"fmt"

	"ibrun/internal/cpuset"
	"ibrun/topo"
)

// shape is a regular machine: how many of each there are in each of what is
// above it. Threads are numbered after all cores, as most firmware does.
type shape struct{ packages, memories, caches, cores, threads int }

// build makes the machine; caches 0 makes none.
func (s shape) build() *topo.Machine {
	m := &topo.Machine{Load: -1}
	total := s.packages * s.memories * max(s.caches, 1) * s.cores
	core := 0
	for p := range s.packages {
		var pkg cpuset.Set
		for n := range s.memories {
			var numa cpuset.Set
			for range max(s.caches, 1) {
				var cache cpuset.Set
				for range s.cores {
					var c cpuset.Set
					for t := range s.threads {
						c.Add(core + t*total)
					}
					m.Cores = append(m.Cores, topo.Object{ID: core, CPUs: c})
					cache = cache.Or(c)
					core++
				}
				if s.caches > 0 {
					m.L3s = append(m.L3s, topo.Object{ID: len(m.L3s), CPUs: cache})
				}
				numa = numa.Or(cache)
			}
			id := p*s.memories + n
			m.Memories = append(m.Memories, topo.Memory{Object: topo.Object{ID: id, CPUs: numa}, Bytes: 8 << 30})
			m.AllowedMems.Add(id)
			pkg = pkg.Or(numa)
		}
		m.Packages = append(m.Packages, topo.Object{ID: p, CPUs: pkg})
		m.Online = m.Online.Or(pkg)
	}
	m.Allowed = m.Online
	return m
}

// ranger is a node of four quad-core packages with a two-port HCA.
func ranger() *topo.Machine {
	m := shape{4, 1, 1, 4, 1}.build()
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
	m := shape{2, 4, 2, 4, 2}.build()
	for i := range m.Memories {
		m.Memories[i].Bytes = 64 << 30
	}
	m.HCAs = []topo.HCA{{Name: "mlx5_0", Place: topo.Place{NUMA: 2}, Ports: []topo.Port{{
		Number: 1, State: "ACTIVE", Layer: "Ethernet", Rate: 200,
		GIDs: []topo.GID{{Link: "ens1"}, {Index: 1, Link: "ens1"}, {Index: 2, Link: "ens1.7"}},
	}}}}
	return m
}

// hybrid has four cores of two threads and eight slower ones in clusters.
func hybrid() *topo.Machine {
	m := &topo.Machine{Load: -1, Online: cpuset.Span(0, 15), Allowed: cpuset.Span(0, 15), AllowedMems: cpuset.Of(0),
		Slower: cpuset.Span(8, 15)}
	all := topo.Object{CPUs: m.Online}
	for c := range 4 {
		m.Cores = append(m.Cores, topo.Object{ID: c, CPUs: cpuset.Span(2*c, 2*c+1)})
	}
	for c := range 8 {
		m.Cores = append(m.Cores, topo.Object{ID: 8 + c, CPUs: cpuset.Of(8 + c)})
	}
	m.L3s, m.Packages, m.Memories = []topo.Object{all}, []topo.Object{all},
		[]topo.Memory{{Object: all, Bytes: 16 << 30}}
	return m
}

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
	m := shape{8, 1, 1, 16, 2}.build()
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
	m := &topo.Machine{Load: -1}
	for p := range 2 {
		var pkg cpuset.Set
		for n := range 2 {
			var numa cpuset.Set
			for c := range 48 {
				cpu := 2*(48*n+c) + p
				m.Cores = append(m.Cores, topo.Object{ID: c, CPUs: cpuset.Of(cpu)})
				numa.Add(cpu)
			}
			m.Memories = append(m.Memories, topo.Memory{Object: topo.Object{ID: 2*p + n, CPUs: numa}, Bytes: 1 << 38})
			m.AllowedMems.Add(2*p + n)
			pkg = pkg.Or(numa)
		}
		o := topo.Object{ID: p, CPUs: pkg}
		m.Packages, m.L3s, m.Online = append(m.Packages, o), append(m.L3s, o), m.Online.Or(pkg)
	}
	m.Allowed = m.Online
	return m
}

// undivided has two packages in one NUMA node.
func undivided() *topo.Machine {
	m := shape{2, 1, 0, 2, 1}.build()
	m.Memories = []topo.Memory{{Object: topo.Object{CPUs: m.Online}, Bytes: 8 << 30}}
	m.AllowedMems = cpuset.Of(0)
	m.HCAs = []topo.HCA{{Name: "hfi1_0"}}
	return m
}
