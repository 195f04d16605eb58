// Package topo is what a node is made of: processors, caches, memory, HCAs and
// network interfaces, as sysfs and procfs describe them, and what of it this
// process may use. It reads through fs.FS, decides nothing about ranks, and
// takes no file's word for more than it can check: what is missing or
// contradictory is left out, with a note.
package topo

import "ibrun/internal/cpuset"

// Kind is a kind of object that ranks can be placed by.
type Kind uint8

// Kinds, from the smallest to the largest.
const (
	PU Kind = iota // hardware thread: what the kernel calls a CPU
	Core
	L3 // the CPUs that share a last-level cache
	NUMA
	Package // socket
	Node    // the whole machine
	Kinds
)

// Object is a part of a machine. Its CPUs are those that are online, allowed or
// not.
type Object struct {
	ID   int // the kernel's number; -1: it has none, or this is a guess
	CPUs cpuset.Set
}

// Memory is a NUMA node. One without CPUs has only memory.
type Memory struct {
	Object
	Bytes    uint64
	Distance []int // to each of Machine.Memories, in its order; nil: not known. 10 is local
}

// Machine is one node. The zero value is no machine; Read makes one with at
// least one CPU, one core, one NUMA node and one package, and every online CPU
// in exactly one core, one NUMA node and one package.
type Machine struct {
	// Cores, L3s and Packages are in the order of the tree that they form:
	// by package, NUMA node, last-level cache and lowest CPU. A NUMA node may
	// hold several packages, and a package several NUMA nodes.
	Cores    []Object
	L3s      []Object // last-level caches that several cores share, of whichever level; may be empty
	Packages []Object
	// with several CPUs, but fewer than their package; for the user, since caches and memory say
	// what a die has
	Dies     []Object
	Memories []Memory   // by ID
	Slower   cpuset.Set // CPUs of cores that are slower than others of this machine (hybrid)

	Online      cpuset.Set // CPUs that run
	Allowed     cpuset.Set // CPUs of Online that cgroup and affinity leave to this process; never empty
	AllowedMems cpuset.Set // IDs of Memories that may be used; never empty
	Quota       float64    // CPUs' worth of time that cpu.max leaves; 0: no limit
	MemoryLimit uint64     // bytes that cgroups leave; 0: no limit
	Load        float64    // processes that ran or wanted to, over the last minute; -1: not known

	HCAs  []HCA
	Links []Link

	// Notes are what was wrong or guessed, a sentence each, for the user.
	Notes []string
}

// Objects are a machine's parts of one kind, in the order of the tree. PUs are
// those that are online; there may be no L3s.
func (m *Machine) Objects(k Kind) []Object {
	var all []Object
	switch k {
	case PU:
		for _, c := range m.Cores {
			for pu := range c.CPUs.All() {
				all = append(all, Object{pu, cpuset.Of(pu)})
			}
		}
	case Core:
		all = m.Cores
	case L3:
		all = m.L3s
	case NUMA:
		for _, n := range m.Memories {
			if !n.CPUs.Empty() {
				all = append(all, n.Object)
			}
		}
	case Package:
		all = m.Packages
	case Node:
		all = []Object{{0, m.Online}}
	}
	return all
}

// Place is where a device is attached.
type Place struct {
	NUMA int        // ID of its NUMA node; -1: not known
	CPUs cpuset.Set // that the kernel calls local; may be empty
	// addresses from the root bus to the device: "pci0000:40", "0000:40:03.0", "0000:41:00.0"; nil:
	// it has none
	PCI []string
}

// HCA is an InfiniBand, RoCE, iWARP or Omni-Path device.
type HCA struct {
	Name string // mlx5_0
	Place
	IWARP bool    // an RNIC, which UCX, NCCL and MVAPICH2 do not drive as they do InfiniBand and RoCE
	GUID  [8]byte // of the node, which no other HCA has; zero: not known
	Ports []Port  // by number
}

// Port is one port of an HCA.
type Port struct {
	Number   int
	State    string // ACTIVE, DOWN, INIT, ARMED: the word alone
	Physical string // LinkUp, Polling, Sleep, ...; empty: not known
	Layer    string // InfiniBand or Ethernet; empty: not known
	LID      uint32 // 0: none, as on Ethernet
	SMLID    uint32
	LMC      uint8
	Rate     float64 // Gb/s; 0: not known
	GIDs     []GID   // those that are not zero
	PKeys    []uint16
}

// GID is an entry of a port's table.
type GID struct {
	Index int
	GID   [16]byte
	Type  string // "IB/RoCE v1", "RoCE v2"; empty: not known
	Link  string // its network interface; empty: none
}

// Active reports whether a port carries data.
func (p *Port) Active() bool { return p.State == "ACTIVE" }

// Link is a network interface.
type Link struct {
	Name string
	Place
	Up       bool
	Loopback bool
	Virtual  bool // no hardware of this machine is behind it
	MTU      int  // bytes
	Speed    int  // Mb/s; 0: not known
	Type     int  // ARPHRD number: 1 Ethernet, 32 InfiniBand, 772 loopback
}

// AllowedCores is the number of cores of which this process may use at least one CPU.
func (m *Machine) AllowedCores() (n uint32) {
	for _, c := range m.Cores {
		if c.CPUs.Meets(m.Allowed) {
			n++
		}
	}
	return n
}
