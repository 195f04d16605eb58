package udp

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/fabric/fabrictest"
)

func TestLaw(t *testing.T) {
	for _, text := range []string{"127.0.0.1", "::1"} {
		addr := netip.MustParseAddr(text)
		t.Run(text, func(t *testing.T) {
			if _, err := linkMTU(addr); err != nil {
				t.Skipf("this machine has no %s: %v", text, err)
			}
			fabrictest.Run(t, func(t *testing.T, s fabric.Sink) fabric.Fabric {
				f, err := Open(Config{Addr: addr}, s)
				require.NoError(t, err)
				return f
			}, fabrictest.Options{})
		})
	}
}

func TestOpen(t *testing.T) {
	f, err := Open(Config{Addr: netip.MustParseAddr("127.0.0.1"), MTU: 1500, Buffer: 1 << 20}, fabrictest.NewBox())
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, 1472, f.MTU())
	require.GreaterOrEqual(t, f.Granted(), 200<<10, "more than the kernel's default")
	require.Equal(t, "127.0.0.1", f.Tuple().AddrPort().Addr().String())
	require.Error(t, f.Post(fabric.Tuple{Kind: fabric.IB, LID: 3}, []byte("x")), "an address of another fabric")
	_, err = Open(Config{Addr: netip.MustParseAddr("192.0.2.1")}, fabrictest.NewBox())
	require.ErrorContains(t, err, "192.0.2.1")
}

func links() []Link {
	a := netip.MustParseAddr
	return []Link{
		{Name: "lo", MTU: 65536, Up: true, Loopback: true, Addrs: []netip.Addr{a("127.0.0.1"), a("::1")}},
		{Name: "docker0", MTU: 1500, Up: true, Virtual: true, Addrs: []netip.Addr{a("172.17.0.1")}},
		{Name: "eth1", MTU: 1500, Addrs: []netip.Addr{a("10.9.0.1")}},
		{Name: "eth0", MTU: 9000, Up: true, Addrs: []netip.Addr{a("fd00::7"), a("10.1.0.7")}},
		{Name: "ib0", MTU: 2044, Up: true, Addrs: []netip.Addr{a("10.2.0.7")}},
		{Name: "veth7", MTU: 1400, Up: true, Virtual: true, Addrs: []netip.Addr{a("10.200.0.2")}},
	}
}

func TestChoose(t *testing.T) {
	for name, c := range map[string]struct {
		want, path string
		links      []Link
		addr, why  string
	}{
		"the way in":             {"", "10.2.0.7", links(), "10.2.0.7", "ib0: the address that this node was reached by"},
		"the way in, mapped":     {"", "::ffff:10.1.0.7", links(), "10.1.0.7", "eth0"},
		"the way in, virtual":    {"", "10.200.0.2", links(), "10.200.0.2", "veth7"},
		"no way in":              {"", "", links(), "10.1.0.7", "neither loopback nor a bridge"},
		"way in by loopback":     {"", "127.0.0.1", links(), "10.1.0.7", "neither loopback nor a bridge"},
		"way in behind NAT":      {"", "203.0.113.9", links(), "10.1.0.7", "eth0"},
		"only loopback":          {"", "", links()[:2], "127.0.0.1", "other machines cannot reach it"},
		"by name":                {"ib0", "10.1.0.7", links(), "10.2.0.7", "--iface ib0"},
		"by address":             {"10.2.0.7", "", links(), "10.2.0.7", "--iface"},
		"by prefix":              {"10.2.0.0/16", "", links(), "10.2.0.7", "--iface"},
		"second choice":          {"ib7,ib0", "", links(), "10.2.0.7", "--iface ib7,ib0"},
		"a bridge, if asked for": {"docker0", "", links(), "172.17.0.1", "docker0"},
		"IPv6, if asked for":     {"fd00::/64", "", links(), "fd00::7", "eth0"},
	} {
		path, _ := netip.ParseAddr(c.path)
		got, err := Choose(c.want, path, c.links)
		require.NoError(t, err, name)
		require.Equal(t, c.addr, got.Addr.String(), name)
		require.Contains(t, got.Reason, c.why, name)
		require.NotZero(t, got.MTU, name)
	}
	_, err := Choose("eth1", netip.Addr{}, links())
	require.ErrorContains(t, err, "it has lo, docker0, eth0, ib0, veth7", "one that is down")
	_, err = Choose("", netip.Addr{}, nil)
	require.Error(t, err)
}

func TestLinks(t *testing.T) {
	all, err := Links()
	require.NoError(t, err)
	live, err := net.Interfaces()
	require.NoError(t, err)
	require.Len(t, all, len(live))
	require.True(t, containerName("docker0") && containerName("br-12ab") && !containerName("bond0") && !containerName("eth0"))
}
