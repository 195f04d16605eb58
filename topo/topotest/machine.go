// Package topotest makes the sysfs and procfs of machines that were never
// built: a Machine is a short description, Files is the tree that its kernel
// would show, and Layout is what a reader should make of it. It writes what
// kernels write and nothing else; broken trees are made by a test, which
// changes the map that it got. It does not import package topo, so that topo's
// own tests may import it, and touches no disk:
//
//	err := os.CopyFS(t.TempDir(), topotest.Ranger.Files())
package topotest

import "ibrun/internal/cpuset"

// None is the number of caches or NUMA nodes of a machine that has not one.
const None = -1

// Order is how a kernel numbers CPUs.
type Order uint8

// Orders.
const (
	Adjacent Order = iota // threads of a core are neighbours, then cores, then packages
	Split                 // the first threads of all cores come before the second ones
	Cyclic                // neighbours are on different packages; first threads before second ones
)

// Machine describes a node. Counts of 0 mean 1, so that the zero value is a
// machine with one CPU. Parts of a package have equal numbers of cores.
type Machine struct {
	Packages        int
	DiesPerPackage  int
	NUMAPerPackage  int // None: a kernel without NUMA
	PackagesPerNUMA int // more than 1: so many packages share a NUMA node
	L3PerPackage    int // None: L2 is the last level
	CoresPerL2      int
	CoresPerPackage int
	SlowPerPackage  int // the last so many of these cores are slower and have one thread (hybrid)
	ThreadsPerCore  int
	MemoryOnly      int // further NUMA nodes that have no CPUs
	MiBPerNUMA      int // memory of each NUMA node; 0: 4096

	Order        Order
	CPUHoles     cpuset.Set // numbers that no CPU has
	CoreHoles    cpuset.Set // the same for the numbers of cores in their package,
	PackageHoles cpuset.Set // of packages
	NUMAHoles    cpuset.Set // and of NUMA nodes

	Offline     cpuset.Set // CPUs that are switched off
	Allowed     cpuset.Set // CPUs that the cgroup leaves to the process; empty: it is in the root group
	AllowedMems cpuset.Set // NUMA nodes that the cgroup leaves to it; empty: all
	Affinity    cpuset.Set // CPUs that the process has bound itself to; empty: all
	Quota       float64    // CPUs' worth of time that the cgroup's parent leaves; 0: no limit
	Load        float64    // of the last minute
	Cgroup      int        // version, 1 or 2; 0: 2
	Old         bool       // a kernel before 5.3: no dies, no core_cpus, no package_cpus, and caches without an id

	HCAs  []HCA
	Links []Link // besides lo
}

// HCA is a device with ports. Its chip is Mellanox's.
type HCA struct {
	Name string
	NUMA int // kernel's number of the NUMA node; -1: the firmware did not say
	// from the root bus on: "pci0000:40", "0000:40:03.0", "0000:41:00.0"; nil: a slot of its own at
	// its NUMA node
	PCI   []string
	Ports []Port
}

// Port is a port of an HCA. The first one is number 1.
type Port struct {
	State string  // DOWN, INIT, ARMED or ACTIVE; empty: ACTIVE
	Layer string  // InfiniBand or Ethernet; empty: InfiniBand
	LID   uint32  // 0: none
	SMLID uint32  // LID of the subnet manager
	LMC   uint8   // so many low bits of the LID are free
	Rate  float64 // Gb/s; 0: 100
	Link  string  // network interface of its GIDs, on Ethernet
	GIDs  []GID   // nil: those that a driver makes by itself
	PKeys []uint16
}

// GID is an entry of a port's table, at the index where it is in the list.
type GID struct {
	GID  string // as the kernel writes it, eight groups of four digits
	Type string // "IB/RoCE v1" or "RoCE v2"; empty: an entry that is not in use
}

// Link is a network interface.
type Link struct {
	Name    string
	HCA     string   // the HCA whose PCI device it shares; empty: a card of its own
	NUMA    int      // of its own card, as for HCA
	PCI     []string // of its own card, as for HCA
	Speed   int      // Mb/s; 0: the driver does not know
	MTU     int      // bytes; 0: 1500
	Down    bool
	Virtual bool // has no card
}

// Ranger is a node of TACC's Ranger of 2008: four quad-core Opterons with a
// NUMA node each, and an HCA beside one of them.
var Ranger = Machine{
	Packages: 4, CoresPerPackage: 4, MiBPerNUMA: 8192, Old: true, Cgroup: 1,
	HCAs: []HCA{{
		Name: "mthca0", NUMA: 2, PCI: []string{"pci0000:40", "0000:40:0e.0", "0000:41:00.0"},
		Ports: []Port{{LID: 0x3a4, SMLID: 1, Rate: 10}, {State: "DOWN", Rate: 10}},
	}},
	Links: []Link{
		{Name: "eth0", NUMA: 0, Speed: 1000},
		{Name: "ib0", HCA: "mthca0", MTU: 65520},
	},
}

// filled puts in what a count of 0 means.
func (m Machine) filled() Machine {
	for _, n := range []*int{&m.Packages, &m.DiesPerPackage, &m.NUMAPerPackage, &m.PackagesPerNUMA,
		&m.L3PerPackage, &m.CoresPerL2, &m.CoresPerPackage, &m.ThreadsPerCore} {
		if *n == 0 {
			*n = 1
		}
	}
	if m.Cgroup == 0 {
		m.Cgroup = 2
	}
	if m.MiBPerNUMA == 0 {
		m.MiBPerNUMA = 4096
	}
	return m
}
