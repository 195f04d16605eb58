package topotest

import (
	"fmt"
	"slices"
	"strings"

	"ibrun/internal/cpuset"
)

// Most is the number of CPUs that a described machine may have.
const Most = 4096

// Check reports what is wrong with a description.
func (m Machine) Check() error {
	m = m.filled()
	if err := m.checkCounts(); err != nil {
		return err
	}
	l := m.layout()
	var mems cpuset.Set
	for _, o := range l.Memories {
		mems.Add(o.ID)
	}
	if mems.Empty() {
		mems.Add(0) // all that a kernel without NUMA speaks of
	}
	switch {
	case !m.Offline.In(l.Present):
		return fmt.Errorf("CPUs %s cannot be offline: the machine has %s", m.Offline.Without(l.Present), l.Present)
	case l.Online.Empty():
		return fmt.Errorf("all CPUs are offline")
	case l.Cgroup.Empty():
		return fmt.Errorf("the cgroup allows %s, of which no CPU is online", m.Allowed)
	case l.Allowed.Empty():
		return fmt.Errorf("the affinity is %s, of which the cgroup allows nothing", m.Affinity)
	case l.Mems.Empty():
		return fmt.Errorf("the cgroup allows NUMA nodes %s: the machine has %s", m.AllowedMems, mems)
	case !(m.Quota >= 0 && m.Quota < Most && m.Load >= 0 && m.Load < Most):
		return fmt.Errorf("quota %g and load %g must be numbers from 0 on", m.Quota, m.Load)
	}
	return m.checkDevices(mems)
}

func (m Machine) checkCounts() error {
	for _, n := range []int{m.Packages, m.DiesPerPackage, m.PackagesPerNUMA, m.CoresPerL2, m.CoresPerPackage,
		m.ThreadsPerCore, m.MiBPerNUMA} {
		if n < 1 || n > 1<<24 {
			return fmt.Errorf("there cannot be %d of anything", n)
		}
	}
	if n := max(m.Packages, m.CoresPerPackage, m.ThreadsPerCore, m.MemoryOnly); n > Most ||
		m.Packages*m.CoresPerPackage > Most ||
		m.Packages*m.CoresPerPackage*m.ThreadsPerCore > Most {
		return fmt.Errorf("a machine may have %d CPUs", Most)
	}
	if m.NUMAPerPackage < None || m.L3PerPackage < None || m.MemoryOnly < 0 || m.NUMAPerPackage == None &&
		m.MemoryOnly > 0 {
		return fmt.Errorf("there cannot be %d NUMA nodes, %d caches or %d nodes of memory", m.NUMAPerPackage,
			m.L3PerPackage, m.MemoryOnly)
	}
	if m.SlowPerPackage < 0 || m.SlowPerPackage >= m.CoresPerPackage && m.SlowPerPackage > 0 {
		return fmt.Errorf("%d of %d cores cannot be slower than the others", m.SlowPerPackage, m.CoresPerPackage)
	}
	if m.Packages%m.PackagesPerNUMA != 0 || m.PackagesPerNUMA > 1 && m.NUMAPerPackage != 1 {
		return fmt.Errorf("%d packages cannot have a NUMA node for %d each", m.Packages, m.PackagesPerNUMA)
	}
	if m.CoresPerPackage%m.CoresPerL2 != 0 || m.CoresPerL2*m.L3PerPackage > m.CoresPerPackage {
		return fmt.Errorf("of %d cores in %d caches, %d cannot share an L2", m.CoresPerPackage, m.L3PerPackage,
			m.CoresPerL2)
	}
	for _, holes := range []cpuset.Set{m.CPUHoles, m.CoreHoles, m.PackageHoles, m.NUMAHoles} {
		if holes.Last() >= Most {
			return fmt.Errorf("only numbers below %d can be holes", Most)
		}
	}
	if m.Cgroup > 2 || m.Cgroup < 1 || m.Order > Cyclic {
		return fmt.Errorf("no kernel has cgroups of version %d or order %d of CPUs", m.Cgroup, m.Order)
	}
	// What crosses is no tree, and no reader could say what is right.
	parts := []int{m.DiesPerPackage, max(1, m.NUMAPerPackage), max(1, m.L3PerPackage), m.CoresPerPackage / m.CoresPerL2,
		m.CoresPerPackage}
	for _, a := range parts {
		if m.CoresPerPackage%a != 0 {
			return fmt.Errorf("%d cores cannot be in %d equal parts", m.CoresPerPackage, a)
		}
		for _, b := range parts {
			if max(a, b)%min(a, b) != 0 {
				return fmt.Errorf("%d and %d parts of a package cross each other", a, b)
			}
		}
	}
	return nil
}

func (m Machine) checkDevices(mems cpuset.Set) error {
	if len(m.HCAs)+len(m.Links) > mostCards {
		return fmt.Errorf("a machine may have %d HCAs and links", mostCards)
	}
	names := []string{"lo"}
	for _, h := range m.HCAs {
		if err := h.check(mems, names); err != nil {
			return err
		}
		names = append(names, h.Name)
	}
	for _, l := range m.Links {
		if l.HCA != "" && !slices.Contains(names, l.HCA) {
			return fmt.Errorf("%s is on %s, which the machine has not", l.Name, l.HCA)
		}
		if l.HCA != "" || l.Virtual {
			l.NUMA = -1 // it does not count
		}
		if l.Speed < 0 || l.MTU < 0 {
			return fmt.Errorf("%s has a speed of %d and packets of %d", l.Name, l.Speed, l.MTU)
		}
		if err := checkCard(l.Name, l.NUMA, l.PCI, mems, names); err != nil {
			return err
		}
		names = append(names, l.Name)
	}
	return nil
}

func (h HCA) check(mems cpuset.Set, names []string) error {
	for _, p := range h.Ports {
		if p.State != "" && !slices.Contains(states, p.State) {
			return fmt.Errorf("a port of %s is %s: only %v are known", h.Name, p.State, states)
		}
		if !(p.Rate >= 0 && p.Rate < 1e6) {
			return fmt.Errorf("a port of %s has a rate of %g", h.Name, p.Rate)
		}
	}
	return checkCard(h.Name, h.NUMA, h.PCI, mems, names)
}

func checkCard(name string, numa int, pci []string, mems cpuset.Set, names []string) error {
	if strings.Trim(name, ".") == "" || strings.ContainsAny(name, "/ ,:=") || slices.Contains(names, name) {
		return fmt.Errorf("%q is no name for a device, or there are two", name)
	}
	if numa != -1 && !mems.Has(numa) {
		return fmt.Errorf("%s is at NUMA node %d: the machine has %s", name, numa, mems)
	}
	if pci != nil && !onBus(pci) {
		return fmt.Errorf("%s is at %s, which is not like pci0000:40/0000:40:03.0/0000:41:00.0", name,
			strings.Join(pci, "/"))
	}
	return nil
}

// onBus reports whether addresses lead from a root bus to a device.
func onBus(pci []string) bool {
	root, ok := strings.CutPrefix(pci[0], "pci")
	if _, bus := parseAddress(root + ":00.0"); !ok || !bus {
		return false
	}
	for _, text := range pci[1:] {
		if _, ok := parseAddress(text); !ok {
			return false
		}
	}
	return len(pci) > 1
}
