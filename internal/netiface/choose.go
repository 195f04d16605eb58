package netiface

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
)

// Choice is the address that a rank's data goes by.
type Choice struct {
	Addr      netip.Addr
	Interface string
	MTU       int    // bytes of the link's packets
	Local     bool   // loopback: no other machine can reach it
	Reason    string // one line for the user
}

// containerNames are interfaces that container tools and hypervisors make, with
// the same addresses on every node.
var containerNames = []string{
	"docker*", "br-*", "virbr*", "veth*", "cni*", "flannel*", "lxcbr*", "podman*", "kube-*", "tun*", "tap*",
}

func containerName(name string) bool {
	return slices.ContainsFunc(containerNames, func(glob string) bool { ok, _ := path.Match(glob, name); return ok })
}

// Choose picks the data address. want is what --iface says: names, addresses
// or prefixes, separated by commas, in the order of preference; or empty. path
// is the local address by which this node's agent was reached; the zero value
// if that is not known. A proven path is taken whatever its interface is
// called; without one, the first interface that is up and not loopback, bridge
// or a container's, IPv4 before IPv6; loopback only if there is nothing else. It
// cannot know of an address that another node has too: that is for who sees both.
func Choose(want string, path netip.Addr, links []Link) (Choice, error) {
	if want != "" {
		return requested(want, links)
	}
	if path.IsValid() && !path.IsLoopback() {
		const reason = "the address that this node was reached by"
		if c, ok := find(links, reason, func(_ Link, a netip.Addr) bool { return a == path.Unmap() }); ok {
			return c, nil
		}
	}
	for _, four := range []bool{true, false} {
		const reason = "the first interface that is neither loopback nor a bridge"
		fits := func(l Link, a netip.Addr) bool { return !l.Loopback && !l.Virtual && a.Is4() == four }
		if c, ok := find(links, reason, fits); ok {
			return c, nil
		}
	}
	const reason = "there is no other; other machines cannot reach it"
	if c, ok := find(links, reason, func(l Link, _ netip.Addr) bool { return l.Loopback }); ok {
		return c, nil
	}
	return Choice{}, errors.New("no network interface has an address; see them with: ip addr")
}

// requested is the choice of --iface.
func requested(want string, links []Link) (Choice, error) {
	for _, word := range strings.Split(want, ",") {
		word = strings.TrimSpace(word)
		prefix, isPrefix := parsePrefix(word)
		fits := func(l Link, a netip.Addr) bool { return isPrefix && prefix.Contains(a) || l.Name == word }
		if c, ok := find(links, "--iface "+want, fits); ok {
			return c, nil
		}
	}
	var names []string
	for _, l := range links {
		if l.Up && len(l.Addrs) > 0 {
			names = append(names, l.Name)
		}
	}
	return Choice{}, fmt.Errorf("--iface %s: this node has no such interface or address that is up; it has %s",
		want, strings.Join(names, ", "))
}

// parsePrefix reads an address as the prefix that has no other.
func parsePrefix(word string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(word); err == nil {
		return p, true
	}
	a, err := netip.ParseAddr(word)
	a = a.Unmap()
	return netip.PrefixFrom(a, a.BitLen()), err == nil
}

// find returns the first address for which fits returns true. It tries IPv4 before IPv6 on each link. The Reason of the
// Choice ends with reason.
func find(links []Link, reason string, fits func(Link, netip.Addr) bool) (Choice, bool) {
	for _, l := range links {
		if !l.Up {
			continue
		}
		for _, four := range []bool{true, false} {
			for _, p := range l.Addrs {
				if a := p.Addr(); a.Is4() == four && fits(l, a) {
					reason = fmt.Sprintf("%v on %s: %s", a, l.Name, reason)
					return Choice{Addr: a, Interface: l.Name, MTU: l.MTU, Local: l.Loopback, Reason: reason}, true
				}
			}
		}
	}
	return Choice{}, false
}
