package topo

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"ibrun/internal/cpuset"
)

// devices are the names in a class's folder, mlx5_2 before mlx5_10. Names go
// into environments, tables and --hca, so one that would break these is left
// out; the kernel's drivers make none.
func (r *reader) devices(class string) []string {
	names := r.names(class)
	names = slices.DeleteFunc(names, func(name string) bool {
		odd := len(name) > mostName || strings.ContainsFunc(name, func(c rune) bool {
			return c <= ' ' || c > '~' || c == ',' || c == ':'
		})
		if odd {
			r.note("%s has an entry %.40q: left out, this is no name for a device", class, name)
		}
		return odd
	})
	slices.SortFunc(names, natural)
	return names
}

// mostName is IB_DEVICE_NAME_MAX of include/rdma/ib_verbs.h. Interfaces have
// less: IFNAMSIZ, 16.
const mostName = 64

// natural compares names with the numbers in them taken as numbers.
func natural(a, b string) int {
	for x, y := a, b; x != "" && y != ""; {
		i, j := digits(x), digits(y)
		if i == 0 || j == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		m, n := strings.TrimLeft(x[:i], "0"), strings.TrimLeft(y[:j], "0")
		if c := cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n)); c != 0 {
			return c
		}
		x, y = x[i:], y[j:]
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// digits is how many a text begins with.
func digits(text string) int {
	return len(text) - len(strings.TrimLeft(text, "0123456789"))
}

// entries are those of a folder whose names are numbers, ascending:
// ports, GIDs, partition keys.
func (r *reader) entries(dir string) []int {
	var numbers []int
	for _, name := range r.names(dir) {
		n, err := strconv.ParseUint(name, 10, 16)
		if err != nil || strconv.Itoa(int(n)) != name {
			r.note("%s has an entry %.40q, which is no number", dir, name)
			continue
		}
		numbers = append(numbers, int(n))
	}
	slices.Sort(numbers)
	return numbers
}

// place is where the device with this folder in a class is attached. Virtual
// devices are nowhere.
func (r *reader) place(dir string) Place {
	p := Place{NUMA: -1}
	device := dir + "/device"
	to, _ := r.target(dir)
	if strings.Contains(to, "/virtual/") {
		return p
	}
	folder, pci := pciPath(path.Join(path.Dir(dir), to))
	if to == "" {
		folder, pci = r.pciFolder(device)
	}
	p.PCI = pci
	// A device that is not itself on the bus, such as a virtio one, has these
	// files at the PCI function above it.
	for _, at := range []string{device, folder} {
		node, known := r.number(at + "/numa_node")
		cpus, listed := r.either(at+"/local_cpulist", at+"/local_cpus")
		if known && (node < -1 || node >= cpuset.Max) { // -1 is NUMA_NO_NODE
			r.note("%s/numa_node holds %d, which is no node", at, node)
			node = -1
		}
		if known {
			p.NUMA = node
		}
		p.CPUs = cpus
		if known || listed {
			break
		}
	}
	return p
}

// pciFolder is like pciPath for a class that has folders in place of links, as
// copies of sysfs may.
func (r *reader) pciFolder(device string) (folder string, pci []string) {
	to, _ := r.target(device)
	address := path.Base(to)
	if !pciFunction(address) {
		// The kernel writes the address of a function to this file (pci_uevent in drivers/pci/pci-driver.c).
		text, _ := r.text(device + "/uevent")
		address, _ = field(text, "PCI_SLOT_NAME", "=")
	}
	if !pciFunction(address) {
		return "", nil
	}
	const bus = "sys/bus/pci/devices"
	to, _ = r.target(bus + "/" + address)
	return pciPath(path.Join(bus, to))
}

// pciPath are the PCI addresses in the path of a folder, from the root bus to
// the device, and the folder of that device. There may be others before the
// root bus (platform devices) and after the device (virtio1/net/eth0); root
// buses may nest (Intel VMD).
func pciPath(of string) (folder string, pci []string) {
	parts := strings.Split(of, "/")
	for i, part := range parts {
		root := strings.HasPrefix(part, "pci") && pciFunction(part[3:]+":00.0")
		if root || pci != nil && pciFunction(part) {
			pci = append(pci, part)
			folder = strings.Join(parts[:i+1], "/")
		}
	}
	return folder, pci
}

// pciFunction reports whether a text is an address like 0000:41:00.0. Domains
// have four digits or more.
func pciFunction(text string) bool {
	domain, rest, _ := strings.Cut(text, ":")
	return len(domain) >= 4 && hexadecimal(domain) && len(rest) == len("41:00.0") &&
		rest[2] == ':' && rest[5] == '.' && hexadecimal(rest[:2]+rest[3:5]+rest[6:])
}

func hexadecimal(text string) bool { return strings.Trim(text, "0123456789abcdef") == "" }

// exists reports whether there is an entry, be it a link to nowhere.
func (r *reader) exists(path string) bool {
	_, err := fs.Lstat(r.fsys, path)
	return err == nil
}
