// Package topo is what a node is made of: processors, caches, memory, HCAs and
// network interfaces, as sysfs and procfs describe them, and what of it this
// process may use. It reads through fs.FS, decides nothing about ranks, and
// takes no file's word for more than it can check: what is missing or
// contradictory is left out, with a note.
package topo

import (
	"fmt"

	"ibrun/internal/cpuset"
)

// Kind is a kind of object that ranks can be placed by.
type Kind uint8

// Kinds, from the smallest to the largest.
const (
	PU Kind = iota // hardware thread: what the kernel calls a CPU
	Core
	L3 // the CPUs that share a last-level cache
	NUMA
	Package // socket
)

// Object represents a part of a machine, such as a core. Its CPUs are online, but may not be allowed.
type Object struct {
	ID   int        `json:"id"` // the kernel's number, or -1 if the kernel gives none or the object is guessed
	CPUs cpuset.Set `json:"cpus"`
}

// Memory represents a NUMA node. Its CPUs may be empty.
type Memory struct {
	Object
	Bytes    uint64 `json:"memory_bytes"`
	Distance []int  `json:"distances"` // distance to each of Machine.Memories; 10 is local; nil if unknown
}

// Machine is one node. The zero value is no machine; Read makes one with at
// least one CPU, one core, one NUMA node and one package, and every online CPU
// in exactly one core, one NUMA node and one package. Users read machines as JSON:
// the name of a field that was removed is not used for another one.
type Machine struct {
	// Packages, L3s and Cores are in the order of the tree that they form:
	// by package, NUMA node, last-level cache and lowest CPU. A NUMA node may
	// hold several packages, and a package several NUMA nodes.
	Packages []Object `json:"packages"`
	// Dies are the dies with several CPUs, but fewer than their package. They are only shown to users. Ranks are placed
	// by the caches and NUMA nodes of a die.
	Dies     []Object   `json:"dies"`
	Memories []Memory   `json:"numa_nodes"` // by ID
	L3s      []Object   `json:"caches"`     // last-level caches that several cores share; may be empty
	Cores    []Object   `json:"cores"`
	Slower   cpuset.Set `json:"slower_cpus"` // CPUs of cores that are slower than others of this machine (hybrid)

	Online cpuset.Set `json:"online_cpus"` // CPUs that are online
	// Allowed are the CPUs of Online that cgroup and affinity leave to this process; never empty.
	Allowed     cpuset.Set `json:"allowed_cpus"`
	AllowedMems cpuset.Set `json:"allowed_numa_nodes"` // IDs of Memories that may be used; never empty
	Quota       float64    `json:"quota_cpus"`         // CPU time limit of cpu.max in CPUs; 0 means no limit
	MemoryLimit uint64     `json:"memory_limit_bytes"` // limit of the cgroups in bytes; 0 means no limit
	Load        float64    `json:"load"`               // load average of the last minute, or -1 if unknown

	HCAs  []HCA  `json:"hcas"`
	Links []Link `json:"interfaces"`

	// Notes are what was wrong or guessed, a sentence each, for the user.
	Notes []string `json:"notes"`
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
	}
	return all
}

// Place describes the location of a device in the machine.
type Place struct {
	NUMA int        `json:"numa_node"`  // ID of the device's NUMA node, or -1 if unknown
	CPUs cpuset.Set `json:"local_cpus"` // CPUs that the kernel reports as local; may be empty
	// PCI addresses from the root bus to the device, such as "pci0000:40", "0000:40:03.0", "0000:41:00.0". The list is
	// nil if the device has no PCI address.
	PCI []string `json:"pci_path"`
}

// HCA is an InfiniBand, RoCE, iWARP or Omni-Path device.
type HCA struct {
	Name string `json:"name"` // mlx5_0
	Place
	IWARP bool   `json:"iwarp"`     // iWARP adapter, which UCX, NCCL and MVAPICH2 cannot use like InfiniBand and RoCE
	GUID  GUID   `json:"node_guid"` // node GUID, which is unique to the HCA; zero if unknown
	Ports []Port `json:"ports"`     // by number
}

// Port is one port of an HCA.
type Port struct {
	Number   int      `json:"number"`
	State    string   `json:"state"`          // ACTIVE, DOWN, INIT or ARMED, without the number in sysfs
	Physical string   `json:"physical_state"` // LinkUp, Polling, Sleep, ...; empty: not known
	Layer    string   `json:"link_layer"`     // InfiniBand or Ethernet; empty: not known
	LID      uint32   `json:"lid"`            // 0: none, as on Ethernet
	SMLID    uint32   `json:"sm_lid"`
	LMC      uint8    `json:"lmc"`
	Rate     float64  `json:"rate_gbps"` // Gb/s; 0: not known
	GIDs     []GID    `json:"gids"`      // GIDs that are not zero
	PKeys    []uint16 `json:"pkeys"`
}

// GID is an entry of a port's table.
type GID struct {
	Index int     `json:"index"`
	GID   Address `json:"gid"`
	Type  string  `json:"type"`      // "IB/RoCE v1", "RoCE v2"; empty: not known
	Link  string  `json:"interface"` // its network interface; empty: none
}

// GUID is the globally unique identifier of an HCA.
type GUID [8]byte

// Address contains the bytes of a GID.
type Address [16]byte

// MarshalText returns a GUID as the kernel writes it: 0002:c903:00f9:bfa0.
func (g GUID) MarshalText() ([]byte, error) { return grouped(g[:]), nil }

// MarshalText returns a GID as the kernel writes it, like a GUID but with eight groups.
func (a Address) MarshalText() ([]byte, error) { return grouped(a[:]), nil }

// grouped returns a GID or GUID in hexadecimal, in groups of two bytes with colons between them.
func grouped(id []byte) (text []byte) {
	for i := 0; i < len(id); i += 2 {
		text = fmt.Appendf(text, ":%x", id[i:i+2])
	}
	return text[1:]
}

// Active reports whether a port carries data.
func (p *Port) Active() bool { return p.State == "ACTIVE" }

// Link is a network interface.
type Link struct {
	Name string `json:"name"`
	Place
	Up       bool `json:"up"`
	Loopback bool `json:"loopback"`
	Virtual  bool `json:"virtual"`    // no hardware of this machine is behind it
	MTU      int  `json:"mtu_bytes"`  // bytes
	Speed    int  `json:"speed_mbps"` // Mb/s; 0: not known
	Type     int  `json:"arphrd"`     // ARPHRD number: 1 Ethernet, 32 InfiniBand, 772 loopback
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
