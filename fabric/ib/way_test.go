package ib

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
)

// Ranks of a node use all LIDs of a port about equally, also if those at one port are every n-th.
func TestLane(t *testing.T) {
	for lmc := range uint8(8) {
		for stride := 1; stride <= 16; stride++ {
			lanes := min(1<<lmc, mostLanes)
			used := map[uint8]int{}
			for rank := range 16 * lanes {
				used[lane(rank*stride, lmc)]++
			}
			require.Len(t, used, lanes)
			for bits, n := range used {
				require.Less(t, int(bits), lanes)
				require.GreaterOrEqual(t, n, 8, "LID %d of %d, every %d ranks: %v", bits, lanes, stride, used)
			}
		}
	}
}

// A route that leads elsewhere than through the port changes nothing.
func TestNoGIDOfRoute(t *testing.T) {
	p := roce(v4(10, 0, 0, 1), v4(10, 1, 0, 1))
	l := p.place(0, request{gid: -1}, 0)
	for _, a := range []string{"192.168.0.1", ""} {
		l.sources.ask = func(netip.Addr) netip.Addr {
			own, _ := netip.ParseAddr(a)
			return own
		}
		require.Equal(t, l.own(), l.way(fabric.Tuple{Kind: fabric.ROCE4, Addr: [16]byte{10, 2, 0, 9}}, 0))
	}
}

// The kernel's own routes, by an address that every machine has.
func TestKernelSource(t *testing.T) {
	require.Equal(t, "127.0.0.1", kernelSource(netip.MustParseAddr("127.0.0.1")).String())
}
