package doctor

import (
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ibrun/internal/limits"
	"ibrun/internal/netiface"
	"ibrun/topo"
)

// Examine holds properties of this process, such as its user and its limits, and the functions with which Report reads
// the properties of the node. Tests set the fields to describe other nodes.
type Examine struct {
	Files   fs.FS // sys, proc, dev, etc and the folders with libraries, from the root
	Machine string
	UID     int
	Host    string
	Binary  string // path of this program; empty: deleted
	Home    string // empty: none
	Cache   string // XDG_CACHE_HOME
	Libs    string // LD_LIBRARY_PATH
	Limits  [limits.Count]limits.Limit
	Links   []netiface.Link
	Route   func() (netiface.Choice, error)               // where data goes by
	Open    func(file string) error                       // whether a device may be used
	Space   func(dir string) (size, free uint64, _ error) // of a folder's file system
	Write   func(dir string) error                        // whether a file can be made in it
	Listed  func() ([]Listed, error)                      // RDMA devices over netlink
	Own     func(hca string) []string                     // device files of an HCA
	// the HCA on the PCI device of a network interface; empty: none
	Over func(link topo.Link) string
	Now  func() int64 // Unix time in ns
}

// Report examines the node.
func (n Examine) Report() *Report {
	m := topo.Read(n.Files)
	r := &Report{
		Host: n.Host, Boot: n.text("proc/sys/kernel/random/boot_id"), UID: n.UID,
		Kernel: n.text("proc/sys/kernel/osrelease"), Machine: n.Machine, Binary: n.Binary,
		CPUs: CPUs{Online: m.Online.String(), Allowed: m.Allowed.String(), Many: m.Allowed.Len(),
			Quota: m.Quota, Load: m.Load},
		Memory:  n.memory(m),
		Memlock: limit(n.Limits[unix.RLIMIT_MEMLOCK]), Files: limit(n.Limits[unix.RLIMIT_NOFILE]),
		Folders: n.folders(),
		Data:    n.route(m), Addrs: n.addresses(),
		Verbs: n.verbs(), HCAs: n.hcas(m), Notes: list(m.Notes),
	}
	r.Time = n.Now()
	return r
}

// list is what JSON shows as [] and not null where there is nothing.
func list[T any](from []T) []T { return append([]T{}, from...) }

// text is a small file, or nothing.
func (n Examine) text(name string) string {
	b, err := fs.ReadFile(n.Files, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// limit is a limit in the words of package doctor.
func limit(l limits.Limit) Limit {
	one := func(v uint64) int64 {
		if v > math.MaxInt64 {
			return Unlimited
		}
		return int64(v)
	}
	return Limit{Soft: one(l.Soft), Hard: one(l.Hard)}
}

func (n Examine) memory(m *topo.Machine) Memory {
	mem := Memory{Limit: m.MemoryLimit}
	for line := range strings.Lines(n.text("proc/meminfo")) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		kB, err := strconv.ParseUint(words[1], 10, 53)
		if err != nil {
			continue
		}
		switch words[0] {
		case "MemTotal:":
			mem.Total = kB << 10
		case "MemAvailable:":
			mem.Available = kB << 10
		}
	}
	return mem
}

func (n Examine) folders() []Folder {
	folders := []Folder{{Path: "/dev/shm", Use: Shared}, {Path: "/tmp", Use: Scratch}}
	cache := n.Cache
	if cache == "" && n.Home != "" {
		cache = n.Home + "/.cache"
	}
	if cache != "" {
		folders = append(folders, Folder{Path: cache + "/ibrun", Use: Cache})
	}
	for i := range folders {
		f := &folders[i]
		err := n.Write(f.Path)
		if err == nil {
			f.Size, f.Free, err = n.Space(f.Path)
		}
		if err != nil {
			f.Fault = innermost(err)
		}
	}
	return folders
}

// innermost returns the text of the innermost error that err wraps. For an *fs.PathError, the text does not contain the
// path.
func innermost(err error) string {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err.Error()
		}
		err = inner.Unwrap()
	}
}

func (n Examine) route(m *topo.Machine) Route {
	at, err := n.Route()
	if err != nil {
		return Route{Fault: err.Error()}
	}
	d := Route{Addr: at.Addr.String(), Interface: at.Interface, MTU: at.MTU, Local: at.Local}
	for _, l := range n.Links {
		for _, p := range l.Addrs {
			if p.Addr() == at.Addr {
				d.Network = p.Masked().String()
			}
		}
	}
	for _, l := range m.Links {
		if l.Name == at.Interface {
			d.Speed = l.Speed
		}
	}
	return d
}

func (n Examine) addresses() []Address {
	all := []Address{}
	for _, l := range n.Links {
		if l.Loopback {
			continue
		}
		for _, p := range l.Addrs {
			all = append(all, Address{Interface: l.Name, Addr: p.Addr().String(), Virtual: l.Virtual})
		}
	}
	return all
}

func (n Examine) hcas(m *topo.Machine) []HCA {
	all := []HCA{}
	mtu := map[string]int{}
	over := map[string][]string{}
	for _, l := range m.Links {
		mtu[l.Name] = l.MTU
		if hca := n.Over(l); hca != "" {
			over[hca] = append(over[hca], l.Name)
		}
	}
	for _, h := range m.HCAs {
		for _, p := range h.Ports {
			for _, g := range p.GIDs { // what has no PCI device, as Soft-RoCE, is known by its table
				if g.Link != "" && !slices.Contains(over[h.Name], g.Link) {
					over[h.Name] = append(over[h.Name], g.Link)
				}
			}
		}
		one := HCA{Name: h.Name, IWARP: h.IWARP, Files: list(n.Own(h.Name)), Links: list(over[h.Name]),
			Ports: []Port{}}
		if h.GUID != ([8]byte{}) {
			one.GUID = fmt.Sprintf("%x", h.GUID)
		}
		slices.Sort(one.Files)
		for _, p := range h.Ports {
			one.Ports = append(one.Ports, readPort(p, mtu, one.Links))
		}
		all = append(all, one)
	}
	return all
}

// readPort converts a port of package topo to a Port. links are the network interfaces of the device, and mtu maps
// the name of each interface to its MTU in bytes. A port whose link layer is not InfiniBand gets the MTU of the
// interface that its GIDs name. If its GIDs name no interface and links has one element, the port gets the MTU of that
// interface.
func readPort(p topo.Port, mtu map[string]int, links []string) Port {
	one := Port{
		Number: p.Number, State: p.State, Physical: p.Physical, Layer: p.Layer, LID: p.LID, LMC: p.LMC, SMLID: p.SMLID,
		Rate: p.Rate, GIDs: []GID{}, PKeys: list(p.PKeys),
	}
	link := ""
	if len(links) == 1 {
		link = links[0]
	}
	for _, g := range p.GIDs {
		one.GIDs = append(one.GIDs, GID{Index: g.Index, GID: fmt.Sprintf("%x", g.GID), Type: g.Type,
			Link: g.Link})
		if g.Link != "" {
			link = g.Link
		}
	}
	if !one.Infiniband() {
		one.MTU = mtu[link]
	}
	return one
}
