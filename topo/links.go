package topo

import (
	"math"
	"strings"
)

// Flags and types of interfaces, from include/uapi/linux/if.h and if_arp.h.
const (
	flagUp       = 1 << 0
	flagLoopback = 1 << 3
	typeLoopback = 772
)

// links are the interfaces in sys/class/net, by name. What the kernel writes
// there: Documentation/ABI/testing/sysfs-class-net and net/core/net-sysfs.c.
func (r *reader) links() []Link {
	const class = "sys/class/net"
	var links []Link
	for _, name := range r.devices(class) {
		dir := class + "/" + name
		to, linked := r.target(dir)
		if !linked && len(r.names(dir)) == 0 {
			continue // bonding_masters is a file among the interfaces
		}
		if r.brief && strings.Contains(to, "/virtual/") {
			links = append(links, Link{Name: name, Virtual: true, Place: Place{NUMA: -1}})
			continue
		}
		flags := r.unsigned(dir+"/flags", 32)
		l := Link{
			Name:  name,
			Place: r.place(dir),
			Up:    r.up(dir, flags),
			MTU:   int(r.unsigned(dir+"/mtu", 31)),
			Speed: r.speed(dir + "/speed"),
			Type:  int(r.unsigned(dir+"/type", 16)),
		}
		l.Loopback = flags&flagLoopback != 0 || l.Type == typeLoopback
		l.Virtual = strings.Contains(to, "/virtual/") || l.PCI == nil && !r.exists(dir+"/device")
		links = append(links, l)
	}
	return links
}

// up reports whether an interface can send. Drivers that do not say (RFC 2863,
// operstate "unknown") at least have a carrier.
func (r *reader) up(dir string, flags uint64) bool {
	switch r.word(dir + "/operstate") {
	case "up":
		return true
	case "unknown", "":
		return flags&flagUp != 0 && r.word(dir+"/carrier") == "1"
	}
	return false
}

// speed is in Mb/s. It cannot be read while the interface is down (EINVAL);
// where it is not known there is -1, which some kernels cut to 16 bits or take
// as unsigned.
func (r *reader) speed(path string) int {
	text, _ := r.text(path)
	if text == "-1" {
		return 0
	}
	n := r.parseUnsigned(text, path, 32)
	if n == math.MaxUint16 || n > math.MaxInt32 {
		return 0
	}
	return int(n)
}
