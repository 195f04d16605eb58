// Package doctor examines nodes and reports problems that jobs on them would have. Examine reads the properties of one
// node from sysfs, procfs and a few system calls. It changes nothing, except that it makes and removes an empty file in
// each folder that it tests. Judge compares the reports of all nodes and returns findings; it performs no I/O.
// WriteJSON and Print write nodes and findings for the user.
package doctor

import "fmt"

// Node is one node of an examination: what it said of itself, or why it said
// nothing.
type Node struct {
	Name     string  `json:"name"`               // as the user wrote it
	How      string  `json:"how"`                // it is reached: "here" needs nothing, "ssh", "local", ...
	Lost     *Lost   `json:"lost,omitempty"`     // why there is no report
	Fallback *Lost   `json:"fallback,omitempty"` // another node could not reach it, this machine could
	Answer   float64 `json:"answer_s"`           // seconds from the start of the launch to the report
	Clock    *Clock  `json:"clock,omitempty"`
	Report   *Report `json:"report,omitempty"`
}

// Lost is a session or a process that failed.
type Lost struct {
	From  string `json:"from"`  // the node that could not reach it; empty: it was reached
	Phase string `json:"phase"` // resolve, connect, authenticate, ...
	Cause string `json:"cause"` // with a hint, if the launcher had one
	Tail  string `json:"tail"`  // what the session printed last
}

// Clock is by how much a node's clock is ahead of the root's, in seconds. It
// was read between two moments of the root's clock, so that more cannot be said.
type Clock struct {
	Least float64 `json:"least_ahead_s"`
	Most  float64 `json:"most_ahead_s"`
}

// Unlimited is a limit that is none.
const Unlimited = -1

// Report is what a node says of itself.
type Report struct {
	Host    string `json:"host_name"`
	Boot    string `json:"boot_id"` // the kernel's, new at each start
	UID     int    `json:"uid"`
	Kernel  string `json:"kernel"`
	Machine string `json:"machine"` // x86_64
	Time    int64  `json:"time_ns"` // Unix time, read last
	// path of the running ibrun; empty: it is deleted, as one that was sent to a folder of its own
	Binary  string    `json:"ibrun"`
	CPUs    CPUs      `json:"cpus"`
	Memory  Memory    `json:"memory"`
	Memlock Limit     `json:"memlock_bytes"`
	Files   Limit     `json:"open_files"`
	Folders []Folder  `json:"folders"`
	Data    Route     `json:"data_path"`
	Addrs   []Address `json:"addresses"` // but those of loopback and the link-local
	Verbs   Verbs     `json:"verbs"`
	HCAs    []HCA     `json:"hcas"`
	Notes   []string  `json:"notes"` // what was odd about sysfs
}

// CPUs are lists as the kernel writes them.
type CPUs struct {
	Online  string  `json:"online"`
	Allowed string  `json:"allowed"`
	Many    int     `json:"allowed_count"`
	Quota   float64 `json:"quota"` // CPUs' worth of time; 0: no limit
	Load    float64 `json:"load"`  // over a minute; -1: not known
}

// Memory is in bytes; 0: not known, or no limit.
type Memory struct {
	Total     uint64 `json:"total_bytes"`
	Available uint64 `json:"available_bytes"`
	Limit     uint64 `json:"limit_bytes"` // of the cgroups
}

// Limit is a resource limit, or Unlimited.
type Limit struct {
	Soft int64 `json:"soft"`
	Hard int64 `json:"hard"`
}

// Folder is a place that ibrun or programs write to.
type Folder struct {
	Path  string `json:"path"`
	Use   Use    `json:"use"`
	Size  uint64 `json:"size_bytes"` // of its file system
	Free  uint64 `json:"free_bytes"`
	Fault string `json:"fault"` // why nothing can be written; empty: it can
}

// Use is what a folder is for.
type Use string

// Uses.
const (
	Shared  Use = "shared memory"
	Scratch Use = "temporary files"
	Cache   Use = "ibrun itself"
)

// Route is where ranks' data would go by over Ethernet.
type Route struct {
	Addr      string `json:"address"`
	Interface string `json:"interface"`
	Network   string `json:"network"` // 10.1.0.0/16; empty: not known
	MTU       int    `json:"mtu_bytes"`
	Speed     int    `json:"speed_mbps"` // 0: not known
	Local     bool   `json:"local"`      // loopback
	Fault     string `json:"fault"`      // why there is none
}

// Address is one of a node's addresses.
type Address struct {
	Interface string `json:"interface"`
	Addr      string `json:"address"`
	Virtual   bool   `json:"virtual"` // a bridge's or a container's
}

// Verbs is what the kernel and the system offer to programs that use RDMA.
type Verbs struct {
	ABI     string       `json:"abi"`     // version of uverbs; empty: the module is not loaded
	Library string       `json:"library"` // path of libibverbs.so.1; empty: there is none
	Modules []string     `json:"modules"`
	Devices []DeviceFile `json:"device_files"`
	Listed  []Listed     `json:"listed"` // devices as the kernel lists them over netlink
	Deaf    string       `json:"deaf"`   // why it lists none
}

// DeviceFile is a file of /dev/infiniband.
type DeviceFile struct {
	Path  string `json:"path"`
	Fault string `json:"fault"` // why this user cannot open it; empty: allowed
}

// Listed is a device over netlink.
type Listed struct {
	Name     string `json:"name"`
	GUID     string `json:"node_guid"` // in the order of sysfs
	Firmware string `json:"firmware"`
	Ports    int    `json:"ports"`
}

// HCA is an RDMA device.
type HCA struct {
	Name  string   `json:"name"`
	GUID  string   `json:"node_guid"` // empty: not known
	IWARP bool     `json:"iwarp"`
	Files []string `json:"device_files"` // its own, of those in /dev/infiniband
	Links []string `json:"interfaces"`   // network interfaces over it
	Ports []Port   `json:"ports"`
}

// Port is one port of an HCA, as topo.Port.
type Port struct {
	Number   int      `json:"number"`
	State    string   `json:"state"`
	Physical string   `json:"physical_state"`
	Layer    string   `json:"link_layer"`
	LID      uint32   `json:"lid"`
	LMC      uint8    `json:"lmc"`
	SMLID    uint32   `json:"sm_lid"`
	Rate     float64  `json:"rate_gbps"`
	MTU      int      `json:"mtu_bytes"` // of the network interface of an Ethernet port; 0: not known
	GIDs     []GID    `json:"gids"`
	PKeys    []uint16 `json:"pkeys"`
}

// GID is an entry of a port's table.
type GID struct {
	Index int    `json:"index"`
	GID   string `json:"gid"` // 32 hexadecimal digits
	Type  string `json:"type"`
	Link  string `json:"interface"`
}

// Active reports whether the port carries data.
func (p *Port) Active() bool { return p.State == "ACTIVE" }

// Infiniband reports whether the port has a LID and a subnet, or should have.
func (p *Port) Infiniband() bool { return p.Layer == "InfiniBand" }

// own is the port's GID that every InfiniBand port has: the subnet's prefix and
// the port's GUID, 16 digits each.
func (p *Port) own() (subnet, guid string) {
	if p.Infiniband() && len(p.GIDs) > 0 && len(p.GIDs[0].GID) == 32 {
		return p.GIDs[0].GID[:16], p.GIDs[0].GID[16:]
	}
	return "", ""
}

// active reports whether any port of the node carries data.
func (r *Report) active() bool {
	for _, h := range r.HCAs {
		for i := range h.Ports {
			if h.Ports[i].Active() {
				return true
			}
		}
	}
	return false
}

// Size is bytes for the user: 64 KiB, 1.5 GiB.
func Size(n uint64) string {
	for _, u := range []struct {
		shift uint
		name  string
	}{{40, "TiB"}, {30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n >= 1<<u.shift {
			return fmt.Sprintf("%.3g %s", float64(n)/float64(uint64(1)<<u.shift), u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
