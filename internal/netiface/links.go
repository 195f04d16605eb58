// Package netiface reads a node's network interfaces and chooses the address that data goes by.
// Ranks, their agent and the doctor ask it, so that all come to the same answer. It opens no
// socket, and does not know which addresses other nodes have.
package netiface

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
)

// Link is a network interface, as far as the choice of an address needs it.
type Link struct {
	Name     string
	MTU      int // bytes
	Up       bool
	Loopback bool
	Virtual  bool // a bridge, a port of one, or one that containers use: other nodes have the same
	Addrs    []netip.Prefix
}

// Links reads this node's interfaces. Link-local addresses are left out: they
// mean nothing without the interface, which an I-tuple does not say.
func Links() ([]Link, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("interfaces: %w", err)
	}
	links := make([]Link, 0, len(all))
	for _, i := range all {
		l := Link{
			Name: i.Name, MTU: i.MTU, Up: i.Flags&net.FlagUp != 0, Loopback: i.Flags&net.FlagLoopback != 0,
		}
		l.Virtual = containerName(i.Name) || !l.Loopback && isBridge(i.Name)
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("addresses of %s: %w", i.Name, err)
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLinkLocalUnicast() {
				l.Addrs = append(l.Addrs, p)
			}
		}
		links = append(links, l)
	}
	return links, nil
}

// isBridge reports whether the kernel says that an interface is a bridge or
// one of its ports (kernel: Documentation/ABI/testing/sysfs-class-net). Having
// a master says less: a port of a VRF has one, and addresses of its own.
func isBridge(name string) bool {
	for _, entry := range []string{"bridge", "brport"} {
		if _, err := os.Stat(filepath.Join("/sys/class/net", name, entry)); err == nil {
			return true
		}
	}
	return false
}

// MTU is that of the interface that has an address, in bytes.
func MTU(addr netip.Addr) (int, error) {
	links, err := Links()
	if err != nil {
		return 0, err
	}
	for _, l := range links {
		for _, p := range l.Addrs {
			if p.Addr() == addr || l.Loopback && p.Contains(addr) { // all of 127.0.0.0/8 can be bound
				return l.MTU, nil
			}
		}
	}
	return 0, fmt.Errorf("no interface has the address %v", addr)
}
