package ib

import (
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
		device: "mlx5_0", number: 1, gids: []verbs.GID{linkLocal(verbs.GIDIB, 9)}, pkeys: []uint16{0x7fff, 0, 0x8001, 0xffff},
		port: verbs.Port{State: verbs.PortActive, LID: 932, MTU: verbs.MTU4096, Link: verbs.LinkInfiniBand},
	}
}

func roce(gids ...verbs.GID) found {
	return found{device: "roce0", number: 2, gids: gids, pkeys: []uint16{0xffff}, port: verbs.Port{State: verbs.PortActive, MTU: verbs.MTU1024, Link: verbs.LinkEthernet}}
}

func TestParsePort(t *testing.T) {
	for text, want := range map[string]wish{"": {}, "mlx5_0": {device: "mlx5_0"}, "mlx5_1:2": {device: "mlx5_1", port: 2}} {
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
	for want, index := range map[uint16]uint16{0: 2, 0x8001: 2, 1: 2, 0xffff: 0, 0x7fff: 0} {
		got, err := p.pkeyIndex(want)
		require.NoError(t, err)
		require.Equal(t, index, got, "%#x", want)
	}
	_, err := p.pkeyIndex(0x8005)
	require.EqualError(t, err, "port mlx5_0:1 is not in partition 0x8005: it has 0x7fff, 0x8001, 0xffff; choose one of these with --pkey")
	p.pkeys = []uint16{0x7fff}
	_, err = p.pkeyIndex(0)
	require.ErrorContains(t, err, "no full member of any partition: it has 0x7fff")
}

func TestGIDOrder(t *testing.T) {
	p := roce(linkLocal(verbs.GIDRoCEv1, 1), linkLocal(verbs.GIDRoCEv2, 1), verbs.GID{}, v4(10, 0, 0, 1), linkLocal(verbs.GIDRoCEv2, 2))
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

// The address of each kind of port, the way there from a port of that kind, and what a datagram from it looks like.
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
		"lid": {infiniband(), -1, fabric.Tuple{Kind: fabric.IB, LID: 932}, verbs.Route{DLID: 932, Port: 1, SL: 3}, verbs.Completion{LID: 932}, nil},
		"lid and gid": {
			infiniband(), 0, fabric.Tuple{Kind: fabric.IBGID, LID: 932, Addr: linkLocal(0, 9).Addr},
			verbs.Route{DLID: 932, Port: 1, SL: 3, Global: true, DGID: linkLocal(0, 9).Addr, HopLimit: 255}, verbs.Completion{LID: 932}, grh(linkLocal(0, 9).Addr),
		},
		"roce over IPv4": {
			roce(ip6, v4(10, 0, 0, 1)), 1, fabric.Tuple{Kind: fabric.ROCE4, Addr: [16]byte{10, 0, 0, 1}},
			verbs.Route{Port: 2, SL: 3, Global: true, DGID: v4(10, 0, 0, 1).Addr, SGIDIndex: 1, HopLimit: 255}, verbs.Completion{}, ip4,
		},
		"roce over IPv6": {
			roce(ip6), 0, fabric.Tuple{Kind: fabric.ROCE6, Addr: ip6.Addr},
			verbs.Route{Port: 2, SL: 3, Global: true, DGID: ip6.Addr, HopLimit: 255}, verbs.Completion{}, grh(ip6.Addr),
		},
		"roce v1": {
			roce(linkLocal(verbs.GIDRoCEv1, 4)), 0, fabric.Tuple{Kind: fabric.ROCE6, Path: 1, Addr: linkLocal(0, 4).Addr},
			verbs.Route{Port: 2, SL: 3, Global: true, DGID: linkLocal(0, 4).Addr, HopLimit: 255}, verbs.Completion{}, grh(linkLocal(0, 4).Addr),
		},
	} {
		t.Run(name, func(t *testing.T) {
			here := c.port.place(c.gid, wish{sl: 3}, 0)
			require.Equal(t, c.tuple, here.tuple)
			route, err := here.route(c.tuple)
			require.NoError(t, err)
			require.Equal(t, c.route, route)
			c.from.Source, c.tuple.Num = 77, 77
			require.Equal(t, c.tuple, here.source(&c.from, c.head))
		})
	}
}

// Ports of different kinds do not reach each other, and it is said which they are.
func TestNoRoute(t *testing.T) {
	ib, v1, v2 := infiniband(), roce(linkLocal(verbs.GIDRoCEv1, 1)), roce(linkLocal(verbs.GIDRoCEv2, 1))
	here := v2.place(0, wish{}, 0)
	for want, other := range map[string]fabric.Tuple{
		"it is ib, and this port roce6": ib.place(-1, wish{}, 0).tuple,
		"choose GIDs of one kind":       v1.place(0, wish{}, 0).tuple,
		"it is eth4":                    {Kind: fabric.ETH4},
	} {
		_, err := here.route(other)
		require.ErrorContains(t, err, want)
	}
}

func FuzzControl(f *testing.F) {
	c := control{call: connect, cookie: 1, nonce: 2, from: fabric.Tuple{Kind: fabric.IB, LID: 3, Num: 4}, side: side{5, 6, streamWindow, 7, verbs.MTU2048}}
	f.Add(c.append(nil))
	f.Add((&control{call: refuse, nonce: 9, from: fabric.Tuple{Kind: fabric.ROCE4}}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, ok := parseControl(b); ok {
			require.Equal(t, b, c.append(nil))
		}
	})
}
