package netiface

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func nodeLinks() []Link {
	p := netip.MustParsePrefix
	return []Link{
		{Name: "lo", MTU: 65536, Up: true, Loopback: true, Addrs: []netip.Prefix{p("127.0.0.1/8"), p("::1/128")}},
		{Name: "docker0", MTU: 1500, Up: true, Virtual: true, Addrs: []netip.Prefix{p("172.17.0.1/16")}},
		{Name: "eth1", MTU: 1500, Addrs: []netip.Prefix{p("10.9.0.1/16")}},
		{Name: "eth2", MTU: 1500, Up: true},
		{Name: "eth3", MTU: 1500, Up: true, Addrs: []netip.Prefix{p("fd03::7/64")}},
		{Name: "eth0", MTU: 9000, Up: true, Addrs: []netip.Prefix{p("fd00::7/64"), p("10.1.0.7/16"), p("10.1.0.8/16")}},
		{Name: "ib0", MTU: 2044, Up: true, Addrs: []netip.Prefix{p("10.2.0.7/16")}},
		{Name: "veth7", MTU: 1400, Up: true, Virtual: true, Addrs: []netip.Prefix{p("10.200.0.2/30")}},
	}
}

func TestChoose(t *testing.T) {
	const reached = "the address that this node was reached by"
	all := nodeLinks()
	for name, c := range map[string]struct {
		want, path string
		links      []Link
		addr, why  string
	}{
		"the way in":              {"", "10.2.0.7", all, "10.2.0.7", "10.2.0.7 on ib0: " + reached},
		"the way in, second":      {"", "10.1.0.8", all, "10.1.0.8", "eth0: " + reached},
		"the way in, IPv6":        {"", "fd00::7", all, "fd00::7", "eth0: " + reached},
		"the way in, mapped":      {"", "::ffff:10.1.0.7", all, "10.1.0.7", "eth0: " + reached},
		"the way in, virtual":     {"", "10.200.0.2", all, "10.200.0.2", "veth7: " + reached},
		"no way in":               {"", "", all, "10.1.0.7", "neither loopback nor a bridge"},
		"no way in, only IPv6":    {"", "", all[:5], "fd03::7", "neither loopback nor a bridge"},
		"way in by loopback":      {"", "127.0.0.1", all, "10.1.0.7", "neither loopback nor a bridge"},
		"way in by IPv6 loopback": {"", "::1", all, "10.1.0.7", "neither loopback nor a bridge"},
		"way in by a dead link":   {"", "10.9.0.1", all, "10.1.0.7", "neither loopback nor a bridge"},
		"way in behind NAT":       {"", "203.0.113.9", all, "10.1.0.7", "eth0"},
		"only loopback":           {"", "127.0.0.1", all[:1], "127.0.0.1", "other machines cannot reach it"},
		"only loopback, docker":   {"", "", all[:4], "127.0.0.1", "other machines cannot reach it"},
		"by name":                 {"ib0", "10.1.0.7", all, "10.2.0.7", "--iface ib0"},
		"by name, IPv4 first":     {"eth0", "", all, "10.1.0.7", "--iface eth0"},
		"by address":              {"10.1.0.8", "", all, "10.1.0.8", "--iface"},
		"by mapped address":       {"::ffff:10.1.0.8", "", all, "10.1.0.8", "--iface"},
		"by prefix":               {"10.2.0.0/16", "", all, "10.2.0.7", "--iface"},
		"by prefix of a host":     {"10.2.9.9/16", "", all, "10.2.0.7", "--iface"},
		"second choice":           {"ib7, ib0,eth0", "", all, "10.2.0.7", "--iface ib7, ib0,eth0"},
		"names and prefixes":      {"ib7,10.3.0.0/16,10.200.0.0/16", "", all, "10.200.0.2", "veth7"},
		"a bridge, if asked for":  {"docker0", "10.1.0.7", all, "172.17.0.1", "docker0"},
		"IPv6, if asked for":      {"fd00::/64", "", all, "fd00::7", "eth0"},
		"loopback, if asked for":  {"lo", "10.1.0.7", all, "127.0.0.1", "--iface lo"},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := netip.ParseAddr(c.path)
			got, err := Choose(c.want, path, c.links)
			require.NoError(t, err)
			require.Equal(t, c.addr, got.Addr.String())
			require.Contains(t, got.Reason, c.why)
			require.NotContains(t, got.Reason, "\n")
			require.Equal(t, got.Addr.IsLoopback(), got.Local)
			for _, l := range c.links {
				if l.Name == got.Interface {
					require.Equal(t, l.MTU, got.MTU)
				}
			}
		})
	}
	for _, want := range []string{"eth1", "eth2", "eth9", "eth", "10.9.0.0/16", "192.0.2.1", "ib7,eth1", ","} {
		_, err := Choose(want, netip.MustParseAddr("10.1.0.7"), all)
		require.ErrorContains(t, err, "--iface "+want+":", "no silent second choice")
		require.ErrorContains(t, err, "it has lo, docker0, eth3, eth0, ib0, veth7")
	}
	_, err := Choose("", netip.Addr{}, nil)
	require.ErrorContains(t, err, "no network interface has an address")
}

func TestLinks(t *testing.T) {
	all, err := Links()
	require.NoError(t, err)
	live, err := net.Interfaces()
	require.NoError(t, err)
	require.Len(t, all, len(live))
	for _, l := range all {
		require.Equal(t, l.Name == "lo", l.Loopback)
		require.False(t, l.Loopback && l.Virtual)
		for _, p := range l.Addrs {
			got, err := MTU(p.Addr())
			require.NoError(t, err)
			require.Equal(t, l.MTU, got)
		}
	}
	_, err = MTU(netip.MustParseAddr("203.0.113.9"))
	require.ErrorContains(t, err, "203.0.113.9")
	for _, name := range []string{"docker0", "br-12ab", "virbr0", "veth7", "cni0"} {
		require.True(t, containerName(name), name)
	}
	// br0: the kernel says that it is a bridge
	for _, name := range []string{"eth0", "bond0", "ib0", "enp3s0f1", "br0"} {
		require.False(t, containerName(name), name)
	}
}
