package show

import (
	"encoding/json"
	"fmt"

	"ibrun/topo"
)

// The data that JSON writes. Names are never reused; sets of CPUs and of NUMA
// nodes are the kernel's lists: "0-3,8", and "" for none.
type (
	machine struct {
		Packages []object   `json:"packages"`
		Dies     []object   `json:"dies"` // with several CPUs, but fewer than their package
		NUMA     []numaNode `json:"numa_nodes"`
		Caches   []object   `json:"caches"` // last-level caches that several cores share
		Cores    []object   `json:"cores"`
		Slower   string     `json:"slower_cpus"` // of cores that are slower than others of this machine
		Online   string     `json:"online_cpus"`
		Allowed  string     `json:"allowed_cpus"`       // that this process may use
		Mems     string     `json:"allowed_numa_nodes"` // whose memory this process may use
		Quota    float64    `json:"quota_cpus"`         // CPUs' worth of time; 0: no limit
		Memory   uint64     `json:"memory_limit_bytes"` // that cgroups leave; 0: no limit
		Load     float64    `json:"load"`               // over the last minute; -1: not known
		HCAs     []hca      `json:"hcas"`
		Links    []netLink  `json:"interfaces"`
		Notes    []string   `json:"notes"` // what was wrong or guessed
	}
	object struct {
		ID   int    `json:"id"` // the kernel's number; -1: it has none
		CPUs string `json:"cpus"`
	}
	numaNode struct {
		object
		Bytes    uint64 `json:"memory_bytes"`
		Distance []int  `json:"distances"` // to all of numa_nodes in their order, 10 is local; []: not known
	}
	place struct {
		NUMA int      `json:"numa_node"`  // its id; -1: not known
		CPUs string   `json:"local_cpus"` // that the kernel calls local
		PCI  []string `json:"pci_path"`   // from the root bus to the device; []: none
	}
	hca struct {
		Name string `json:"name"`
		place
		IWARP bool      `json:"iwarp"`
		GUID  string    `json:"node_guid"` // as sysfs writes it; all 0: not known
		Ports []hcaPort `json:"ports"`
	}
	hcaPort struct {
		Number   int        `json:"number"`
		State    string     `json:"state"`          // ACTIVE, DOWN, INIT, ARMED
		Physical string     `json:"physical_state"` // LinkUp, Polling, ...; "": not known
		Layer    string     `json:"link_layer"`     // InfiniBand, Ethernet; "": not known
		LID      uint32     `json:"lid"`            // 0: none
		SMLID    uint32     `json:"sm_lid"`
		LMC      uint8      `json:"lmc"`
		Rate     float64    `json:"rate_gbps"` // 0: not known
		GIDs     []tableGID `json:"gids"`
		PKeys    []uint16   `json:"pkeys"`
	}
	tableGID struct {
		Index int    `json:"index"`
		GID   string `json:"gid"` // as sysfs writes it: fe80:0000:0000:0000:0002:c903:0000:0001
		Type  string `json:"type"`
		Link  string `json:"interface"` // "": none
	}
	netLink struct {
		Name string `json:"name"`
		place
		Up       bool `json:"up"`
		Loopback bool `json:"loopback"`
		Virtual  bool `json:"virtual"` // no hardware of this machine is behind it
		MTU      int  `json:"mtu_bytes"`
		Speed    int  `json:"speed_mbps"` // 0: not known
		Type     int  `json:"arphrd"`     // 1 Ethernet, 32 InfiniBand, 772 loopback
	}
)

// JSON is all of a machine as data: one object in one line. Lists that are empty are [] and not null.
// It fails if Quota, Load or a Rate is infinite or not a number.
func JSON(m *topo.Machine) ([]byte, error) {
	b, err := json.Marshal(machine{
		Packages: each(m.Packages, newObject), Dies: each(m.Dies, newObject),
		NUMA: each(m.Memories, func(mem topo.Memory) numaNode {
			return numaNode{newObject(mem.Object), mem.Bytes, list(mem.Distance)}
		}),
		Caches: each(m.L3s, newObject), Cores: each(m.Cores, newObject),
		Slower: m.Slower.String(), Online: m.Online.String(), Allowed: m.Allowed.String(), Mems: m.AllowedMems.String(),
		Quota: m.Quota, Memory: m.MemoryLimit, Load: m.Load,
		HCAs: each(m.HCAs, func(h topo.HCA) hca {
			return hca{h.Name, newPlace(h.Place), h.IWARP, grouped(h.GUID[:]), each(h.Ports, newPort)}
		}),
		Links: each(m.Links, func(l topo.Link) netLink {
			return netLink{l.Name, newPlace(l.Place), l.Up, l.Loopback, l.Virtual, l.MTU, l.Speed, l.Type}
		}),
		Notes: list(m.Notes),
	})
	if err != nil {
		return nil, fmt.Errorf("machine as JSON: %w", err)
	}
	return b, nil
}

func newObject(o topo.Object) object { return object{o.ID, o.CPUs.String()} }

func newPlace(p topo.Place) place { return place{p.NUMA, p.CPUs.String(), list(p.PCI)} }

func newPort(p topo.Port) hcaPort {
	return hcaPort{
		p.Number, p.State, p.Physical, p.Layer, p.LID, p.SMLID, p.LMC, p.Rate,
		each(p.GIDs, func(g topo.GID) tableGID { return tableGID{g.Index, grouped(g.GID[:]), g.Type, g.Link} }),
		list(p.PKeys),
	}
}

// grouped is a GID or GUID as the kernel writes it, in groups of two bytes.
func grouped(id []byte) string {
	text := fmt.Sprintf("%x", id)
	for at := len(text) - 4; at > 0; at -= 4 {
		text = text[:at] + ":" + text[at:]
	}
	return text
}

// list is what is written as [] even if there is nothing.
func list[T any](from []T) []T { return append([]T{}, from...) }

func each[From, To any](from []From, to func(From) To) []To {
	all := make([]To, 0, len(from))
	for _, f := range from {
		all = append(all, to(f))
	}
	return all
}
