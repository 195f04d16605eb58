package ib

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
	"ibrun/fabric"
)

func v4(a, b, c, d byte) verbs.GID {
	return verbs.GID{Type: verbs.GIDRoCEv2, Addr: [16]byte{10: 0xff, 11: 0xff, 12: a, 13: b, 14: c, 15: d}}
}

func linkLocal(kind verbs.GIDType, last byte) verbs.GID {
	return verbs.GID{Type: kind, Addr: [16]byte{0: 0xfe, 1: 0x80, 15: last}}
}

func infiniband() found {
	return found{
		device: "mlx5_0", number: 1, gids: []verbs.GID{linkLocal(verbs.GIDIB, 9)},
		pkeys: []uint16{0x7fff, 0, 0x8001, 0xffff},
		port:  verbs.Port{State: verbs.PortActive, LID: 932, MTU: verbs.MTU4096, Link: verbs.LinkInfiniBand},
	}
}

func roce(gids ...verbs.GID) found {
	return found{device: "roce0", number: 2, gids: gids, pkeys: []uint16{0xffff},
		port: verbs.Port{State: verbs.PortActive, MTU: verbs.MTU1024, Link: verbs.LinkEthernet}}
}

func TestParsePort(t *testing.T) {
	for text, want := range map[string]request{"": {}, "mlx5_0": {device: "mlx5_0"},
		"mlx5_1:2": {device: "mlx5_1", port: 2}} {
		w, err := parsePort(text)
		require.NoError(t, err)
		require.Equal(t, want, w)
	}
	for _, text := range []string{":1", "mlx5_0:", "mlx5_0:0", "mlx5_0:one"} {
		_, err := parsePort(text)
		require.ErrorContains(t, err, "write DEVICE:PORT", text)
	}
}

// What cannot carry anything says why, and what to do.
func TestUsable(t *testing.T) {
	for want, change := range map[string]func(*found){
		"has an MTU of 512 bytes, and 1024":   func(p *found) { p.port.MTU = verbs.MTU512 },
		"no subnet manager has configured it": func(p *found) { p.port.State = verbs.PortInit },
		"mlx5_0:1 is down: see ibstat mlx5_0": func(p *found) { p.port.State = verbs.PortDown },
		"mlx5_0:1 has no LID":                 func(p *found) { p.port.LID = 0 },
	} {
		p := infiniband()
		require.NoError(t, p.usable())
		change(&p)
		require.ErrorContains(t, p.usable(), want)
	}
	p := roce(v4(10, 0, 0, 1))
	require.NoError(t, p.usable())
}

func TestPKey(t *testing.T) {
	p := infiniband()
	for want, index := range map[uint16]uint16{0: 2, 0x8001: 2, 1: 2, 0xffff: 3, 0x7fff: 3} {
		got, err := p.pkeyIndex(want)
		require.NoError(t, err)
		require.Equal(t, index, got, "%#x", want)
	}
	_, err := p.pkeyIndex(0x8005)
	require.EqualError(t, err,
		"port mlx5_0:1 is not in partition 0x8005: it has 0x7fff, 0x8001, 0xffff; choose one of these with --pkey")
	p.pkeys = []uint16{0x7fff}
	_, err = p.pkeyIndex(0)
	require.ErrorContains(t, err, "no full member of any partition: it has 0x7fff")
}

func TestGIDOrder(t *testing.T) {
	p := roce(linkLocal(verbs.GIDRoCEv1, 1), linkLocal(verbs.GIDRoCEv2, 1), verbs.GID{}, v4(10, 0, 0, 1),
		linkLocal(verbs.GIDRoCEv2, 2))
	order, err := p.gidOrder(-1)
	require.NoError(t, err)
	require.Equal(t, []int{3, 1, 4, 0}, order)
	order, err = p.gidOrder(1)
	require.NoError(t, err)
	require.Equal(t, []int{1}, order)
	for _, wrong := range []int{2, 5, 255} {
		_, err = p.gidOrder(wrong)
		require.ErrorContains(t, err, "port roce0:2 has no GID at index")
	}
	p.gids = nil
	_, err = p.gidOrder(-1)
	require.ErrorContains(t, err, "its network interface has no address")
}

// The address of each kind of port, the way there from a port of that kind, and what a datagram
// from it looks like.
func TestAddresses(t *testing.T) {
	ip6 := verbs.GID{Type: verbs.GIDRoCEv2, Addr: [16]byte{0: 0xfd, 15: 7}}
	grh := func(addr [16]byte) []byte { // of IPv6 or InfiniBand
		b := make([]byte, verbs.GRHSize)
		copy(b[8:], addr[:])
		return b
	}
	ip4 := make([]byte, verbs.GRHSize)
	copy(ip4[32:], []byte{10, 0, 0, 1})
	for name, c := range map[string]struct {
		port  found
		gid   int
		tuple fabric.Tuple
		route verbs.Route
		from  verbs.Completion
		head  []byte
	}{
		"lid": {infiniband(), -1, fabric.Tuple{Kind: fabric.IB, LID: 932}, verbs.Route{DLID: 932, Port: 1, SL: 3},
			verbs.Completion{LID: 932}, nil},
		"lid and gid": {
			infiniband(), 0, fabric.Tuple{Kind: fabric.IBGID, LID: 932, Addr: linkLocal(0, 9).Addr},
			verbs.Route{DLID: 932, Port: 1, SL: 3, Global: true, DGID: linkLocal(0, 9).Addr, HopLimit: 255},
			verbs.Completion{LID: 932, Flags: verbs.HasGRH}, grh(linkLocal(0, 9).Addr),
		},
		"roce over IPv4": {
			roce(ip6, v4(10, 0, 0, 1)), 1, fabric.Tuple{Kind: fabric.ROCE4, Addr: [16]byte{10, 0, 0, 1}},
			verbs.Route{Port: 2, SL: 3, Global: true, DGID: v4(10, 0, 0, 1).Addr, SGIDIndex: 1, HopLimit: 255},
			verbs.Completion{}, ip4,
		},
		"roce over IPv6": {
			roce(ip6), 0, fabric.Tuple{Kind: fabric.ROCE6, Addr: ip6.Addr},
			verbs.Route{Port: 2, SL: 3, Global: true, DGID: ip6.Addr, HopLimit: 255}, verbs.Completion{}, grh(ip6.Addr),
		},
		"roce v1": {
			roce(linkLocal(verbs.GIDRoCEv1, 4)), 0,
			fabric.Tuple{Kind: fabric.ROCE6, Path: 1, Addr: linkLocal(0, 4).Addr},
			verbs.Route{Port: 2, SL: 3, Global: true, DGID: linkLocal(0, 4).Addr, HopLimit: 255}, verbs.Completion{},
			grh(linkLocal(0, 4).Addr),
		},
	} {
		t.Run(name, func(t *testing.T) {
			here := c.port.place(c.gid, request{sl: 3}, uint16(len(c.port.pkeys)-1))
			require.Equal(t, c.tuple, here.tuple)
			route, err := here.route(c.tuple)
			require.NoError(t, err)
			require.Equal(t, c.route, route)
			c.from.Source, c.tuple.Num = 77, 77
			require.Equal(t, c.tuple, here.source(&c.from, c.head))
		})
	}
}

// inSubnet is a port of a subnet that has a prefix of its own.
func inSubnet(last byte) found {
	p := infiniband()
	p.gids = []verbs.GID{{Type: verbs.GIDIB, Addr: [16]byte{0: 0xfe, 1: 0xc0, 7: last, 15: 9}}}
	return p
}

// Ports that do not reach each other: it is said where both are, and what to do.
func TestNoRoute(t *testing.T) {
	at := func(p found, gid int) *local {
		l := p.place(gid, request{}, uint16(len(p.pkeys)-1))
		return &l
	}
	lid, subnet1, subnet2 := at(infiniband(), -1), at(inSubnet(1), -1), at(inSubnet(2), -1)
	v1, v2, ip4 := at(roce(linkLocal(verbs.GIDRoCEv1, 1)), 0), at(roce(linkLocal(verbs.GIDRoCEv2, 1)), 0),
		at(roce(v4(10, 0, 0, 1)), 0)
	ethernet := fabric.Ethernet(netip.MustParseAddrPort("10.0.0.3:4000"))
	for _, c := range []struct {
		here *local
		to   fabric.Tuple
		want string
	}{
		{lid, subnet1.tuple, "its port (LID 932) is in subnet fec0000000000001, and port mlx5_0:1 of this " +
			"node (LID 932) in fe80000000000000; there is no way from one subnet to another: choose ports of one " +
			"with --hca"},
		{subnet1, lid.tuple,
			"is in subnet fe80000000000000, and port mlx5_0:1 of this node (LID 932) in fec0000000000001"},
		{subnet2, subnet1.tuple,
			"is in subnet fec0000000000001, and port mlx5_0:1 of this node (LID 932) in fec0000000000002"},
		{v2, lid.tuple,
			"its node goes by InfiniBand (LID 932), and port roce0:2 of this node by RoCE v2 (fe80::1)"},
		{lid, ip4.tuple, "its node goes by RoCE (10.0.0.1), and port mlx5_0:1 of this node by InfiniBand (LID 932)"},
		{lid, ethernet, "its node goes by Ethernet (10.0.0.3), having no InfiniBand or RoCE that works, and port " +
			"mlx5_0:1 of this node by InfiniBand"},
		{v2, v1.tuple, "its node is at RoCE v1 (fe80::1), and port roce0:2 of this node at RoCE v2 (fe80::1), which"},
		{ip4, v2.tuple, "its node is at RoCE v2 (fe80::1), and port roce0:2 of this node at RoCE (10.0.0.1), which"},
	} {
		_, err := c.here.route(c.to)
		require.ErrorContains(t, err, c.want)
		require.Regexp(t, "--(hca|gid-index|fabric udp)", err.Error())
		_, err = c.here.route(c.here.tuple)
		require.NoError(t, err)
	}
}

// In a subnet of another prefix the address names it, and packets go by LID all the same.
func TestSubnet(t *testing.T) {
	here := new(found)
	*here = inSubnet(1)
	l := here.place(-1, request{}, 3)
	require.Equal(t, fabric.Tuple{Kind: fabric.IBGID, LID: 932, Addr: here.gids[0].Addr}, l.tuple)
	route, err := l.route(l.tuple)
	require.NoError(t, err)
	require.Equal(t, verbs.Route{DLID: 932, Port: 1}, route)
	from := l.source(&verbs.Completion{LID: 7, Source: 5}, make([]byte, verbs.GRHSize))
	require.Equal(t, fabric.Tuple{Kind: fabric.IBGID, LID: 7, Addr: [16]byte{0: 0xfe, 1: 0xc0, 7: 1}, Num: 5}, from)
	route, err = l.route(from)
	require.NoError(t, err)
	require.Equal(t, uint16(7), route.DLID)
}

func FuzzControl(f *testing.F) {
	c := control{call: connect, cookie: 1, nonce: 2, from: fabric.Tuple{Kind: fabric.IB, LID: 3, Num: 4},
		side: side{5, 6, streamWindow, 7, verbs.MTU2048, fabric.Tuple{Kind: fabric.IB, LID: 4}}}
	f.Add(c.append(nil))
	f.Add((&control{call: refuse, nonce: 9, from: fabric.Tuple{Kind: fabric.ROCE4}}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, ok := parseControl(b); ok {
			require.Equal(t, b, c.append(nil))
		}
	})
}
