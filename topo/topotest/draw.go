package topotest

import (
	"fmt"
	"math/rand/v2"

	"ibrun/internal/cpuset"
)

// Draw makes a machine by chance, of at most so many CPUs: the time that a test takes grows with
// its number of files. What Check refuses is drawn again.
func Draw(r *rand.Rand, maxCPUs int) Machine {
	for {
		m := drawParts(r)
		if m.Check() != nil || m.Layout().Present.Len() > maxCPUs {
			continue
		}
		drawDevices(r, &m)
		drawLimits(r, &m)
		if m.Check() == nil {
			return m
		}
	}
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func some(r *rand.Rand, of cpuset.Set, oneIn int) (s cpuset.Set) {
	for n := range of.All() {
		if r.IntN(oneIn) == 0 {
			s.Add(n)
		}
	}
	return s
}

func drawParts(r *rand.Rand) Machine {
	m := Machine{
		Packages:        pick(r, 1, 2, 2, 3, 4, 8),
		DiesPerPackage:  pick(r, 0, 0, 2, 4),
		NUMAPerPackage:  pick(r, 0, 0, 0, 2, 2, 4, None),
		L3PerPackage:    pick(r, 0, 0, 2, 3, 4, None),
		CoresPerL2:      pick(r, 0, 0, 2, 4),
		CoresPerPackage: pick(r, 0, 2, 3, 4, 6, 8, 12, 16),
		ThreadsPerCore:  pick(r, 0, 2, 2, 4),
		MiBPerNUMA:      pick(r, 0, 8192),
		Order:           pick(r, Adjacent, Split, Cyclic),
		Cgroup:          pick(r, 0, 1),
		Old:             r.IntN(3) == 0,
	}
	if m.NUMAPerPackage == 0 {
		m.PackagesPerNUMA = pick(r, 0, 0, 2)
	}
	if m.NUMAPerPackage != None {
		m.MemoryOnly = pick(r, 0, 0, 0, 1, 2)
	}
	if m.CoresPerPackage > 2 {
		m.SlowPerPackage = pick(r, 0, 0, 0, 2)
	}
	m.CPUHoles = pick(r, cpuset.Set{}, cpuset.Set{}, cpuset.Span(4, 7), cpuset.Of(0), some(r, cpuset.Span(0, 99), 3))
	m.CoreHoles = pick(r, cpuset.Set{}, cpuset.Span(3, 7), some(r, cpuset.Span(0, 31), 2))
	m.PackageHoles = pick(r, cpuset.Set{}, cpuset.Set{}, cpuset.Of(1), some(r, cpuset.Span(0, 9), 2))
	m.NUMAHoles = pick(r, cpuset.Set{}, cpuset.Set{}, cpuset.Span(1, 7), some(r, cpuset.Span(0, 31), 2))
	return m
}

func drawLimits(r *rand.Rand, m *Machine) {
	l := m.Layout()
	if r.IntN(3) == 0 {
		m.Offline = some(r, l.Present, pick(r, 2, 4, 8))
	}
	if r.IntN(3) == 0 {
		m.Allowed = some(r, l.Present, 2)
	}
	if r.IntN(4) == 0 {
		m.AllowedMems = some(r, l.Mems, 2)
	}
	if r.IntN(4) == 0 {
		m.Affinity = some(r, l.Present, 2)
	}
	if r.IntN(4) == 0 {
		m.Quota = pick(r, 0.5, 1, 2.25)
	}
	m.Load = pick(r, 0, 0.25, 7)
}

func drawDevices(r *rand.Rand, m *Machine) {
	var nodes []int
	for n := range m.Layout().Mems.All() {
		nodes = append(nodes, n)
	}
	for i := range pick(r, 0, 1, 1, 2, 3) {
		h := HCA{Name: fmt.Sprintf("mlx5_%d", i), NUMA: pick(r, nodes...)}
		if r.IntN(8) == 0 {
			h.NUMA = -1
		}
		if r.IntN(3) == 0 { // all that are here share a bridge
			h.NUMA, h.PCI = nodes[0], []string{"pci0000:80", "0000:80:02.2", "0000:82:08.0",
				fmt.Sprintf("0000:83:%02x.0", i)}
		}
		link := fmt.Sprintf("net%d", i)
		rate := pick(r, 0, 10, 56, 200.0)
		for range pick(r, 1, 1, 2) {
			h.Ports = append(h.Ports, pick(r,
				Port{LID: uint32(1 + r.IntN(0xbfff)), SMLID: 1, Rate: rate},
				Port{State: "DOWN", Rate: rate},
				Port{Layer: "Ethernet", Link: link, Rate: rate}))
		}
		m.HCAs = append(m.HCAs, h)
		m.Links = append(m.Links, Link{Name: link, HCA: h.Name, Speed: 100000})
	}
	for i := range r.IntN(3) {
		m.Links = append(m.Links, Link{
			Name: fmt.Sprintf("eth%d", i), NUMA: pick(r, nodes...), Speed: pick(r, 0, 1000, 25000),
			MTU: pick(r, 0, 9000), Down: r.IntN(3) == 0,
		})
	}
	if r.IntN(2) == 0 {
		m.Links = append(m.Links, Link{Name: "docker0", Virtual: true})
	}
}
