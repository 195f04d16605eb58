package topotest

import (
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"testing/fstest"

	"ibrun/internal/cpuset"
)

// mostCards bounds the slots that are made up: a root bus has five bits of
// device numbers, of which 0 is the host bridge's.
const mostCards = 31

// slot is the place that a card without PCI gets: behind a bridge of its own,
// on the root bus of its NUMA node. Domain 0 is left to cards with PCI.
func slot(numa, index int) []string {
	domain, root := 1+numa>>2, numa&3*0x40
	if numa < 0 {
		domain, root = 0xffff, 0
	}
	return []string{
		fmt.Sprintf("pci%04x:%02x", domain, root),
		fmt.Sprintf("%04x:%02x:%02x.0", domain, root, index+1),
		fmt.Sprintf("%04x:%02x:00.0", domain, root+index+1),
	}
}

// address is a PCI address.
type address struct{ domain, bus, device, function int }

func parseAddress(text string) (a address, ok bool) {
	if _, err := fmt.Sscanf(text, "%04x:%02x:%02x.%1x", &a.domain, &a.bus, &a.device, &a.function); err != nil {
		return a, false
	}
	return a, fmt.Sprintf("%04x:%02x:%02x.%x", a.domain, a.bus, a.device, a.function) == text
}

// chip is what a PCI device says of itself.
type chip struct {
	class          int // 24 bits
	vendor, device int
	driver         string
}

var bridge = chip{0x060400, 0x8086, 0x3c03, "pcieport"}

// card writes a PCI device and the bridges above it, and returns its folder.
func (t *tree) card(pci []string, c chip, numa int, l Layout) string {
	dir := "sys/devices/" + pci[0]
	for i := 1; i < len(pci)-1; i++ {
		dir = path.Join(dir, pci[i])
		t.pciDevice(dir, bridge, numa, l)
		t.buses(dir, pci[i+1:])
	}
	dir = path.Join(dir, pci[len(pci)-1])
	t.pciDevice(dir, c, numa, l)
	return dir
}

func (t *tree) pciDevice(dir string, c chip, numa int, l Layout) {
	if t.files[dir+"/class"] != nil {
		return // a bridge with two cards behind it, or a card with two functions of ours
	}
	local := l.local(numa)
	if len(l.Memories) == 0 {
		numa = -1
	}
	name := path.Base(dir)
	t.text(dir+"/class", "0x%06x", c.class)
	t.text(dir+"/vendor", "0x%04x", c.vendor)
	t.text(dir+"/device", "0x%04x", c.device)
	t.text(dir+"/subsystem_vendor", "0x%04x", c.vendor)
	t.text(dir+"/subsystem_device", "0x0001")
	t.text(dir+"/revision", "0x01")
	t.text(dir+"/numa_node", "%d", numa)
	t.mask(dir+"/local_cpus", local)
	t.list(dir+"/local_cpulist", local)
	t.text(dir+"/uevent", "DRIVER=%s\nPCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SLOT_NAME=%s", c.driver, c.class, c.vendor,
		c.device, name)
	t.files[dir+"/config"] = &fstest.MapFile{Data: config(c), Mode: 0o644}
	t.link(dir+"/subsystem", "sys/bus/pci")
	t.link("sys/bus/pci/devices/"+name, dir)
}

// config is the start of the device's configuration space, which is where a
// bridge says what is behind it (PCI Local Bus 3.0, 6.1; PCI-to-PCI bridges
// 1.2, 3.2).
func config(c chip) []byte {
	b := make([]byte, 64)
	binary.LittleEndian.PutUint16(b[0x00:], uint16(c.vendor))
	binary.LittleEndian.PutUint16(b[0x02:], uint16(c.device))
	binary.LittleEndian.PutUint32(b[0x08:], uint32(c.class)<<8|1)
	if c == bridge {
		b[0x0e] = 1
	}
	return b
}

// buses adds what is below a bridge to the buses that it leads to.
func (t *tree) buses(dir string, below []string) {
	b := t.files[dir+"/config"].Data
	own, _ := parseAddress(path.Base(dir))
	next, _ := parseAddress(below[0])
	last := next.bus
	for _, text := range below {
		a, _ := parseAddress(text)
		last = max(last, a.bus)
	}
	b[0x18], b[0x19], b[0x1a] = byte(own.bus), byte(next.bus), max(b[0x1a], byte(last))
}

// local is what the kernel calls local to a NUMA node: all CPUs, if the node is
// not known.
func (l Layout) local(numa int) cpuset.Set {
	i := slices.IndexFunc(l.Memories, func(o Object) bool { return o.ID == numa })
	if i < 0 {
		return l.Online
	}
	return l.Memories[i].CPUs
}
