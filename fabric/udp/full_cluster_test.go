//go:build cluster

package udp

import (
	"bytes"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"ibrun/fabric"
	"ibrun/test/waitfor"
)

// ownNetwork moves the test's goroutine to a network namespace of its own, in
// which no neighbour answers. Its thread ends with the test.
func ownNetwork(t *testing.T) (addr, neighbour netip.Addr) {
	runtime.LockOSThread()
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET))
	for _, line := range []string{"link add v0 type veth peer name v1", "addr add 198.51.100.1/24 dev v0",
		"link set v0 up", "link set v1 up"} {
		out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput()
		require.NoError(t, err, "ip %s: %s", line, out)
	}
	return netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")
}

// A send buffer without room loses the datagram; the caller does not wait.
// Datagrams fill it that wait for a neighbour who does not answer.
func TestFullBufferLoses(t *testing.T) {
	addr, neighbour := ownNetwork(t)
	f, _ := open(t, Config{Addr: addr})
	require.Equal(t, 1472, f.MTU(), "the link was asked")
	require.NoError(t, f.raw.Control(func(fd uintptr) { // the least that the kernel allows
		require.NoError(t, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 1))
	}))
	m, to := make([]byte, 1400), fabric.Ethernet(netip.AddrPortFrom(neighbour, 9))
	const posts = 1000
	posted := make(chan struct{})
	go func() {
		defer close(posted)
		for range posts {
			if err := f.Post(to, m); err != nil {
				t.Error(err)
			}
		}
	}()
	waitfor.Closed(t, posted) // the kernel gives the neighbour three seconds, each time
	c := f.Counters()
	require.EqualValues(t, posts, c.Sent+c.Lost)
	require.Greater(t, c.Lost, uint64(posts/2))
	require.Equal(t, c.Sent*1400, c.SentBytes)
}

// A link whose MTU falls while datagrams go over it: they arrive all the same, in fragments.
func TestLinkShrinks(t *testing.T) {
	runtime.LockOSThread() // and the thread ends with the test
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET))
	lo, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetMTU(lo, 1500))
	require.NoError(t, netlink.LinkSetUp(lo))
	a, _ := open(t, Config{Addr: here})
	b, got := open(t, Config{Addr: here})
	const most, batch = 1472, 3
	require.Equal(t, most, a.MTU())
	message := func(n byte) []byte { return bytes.Repeat([]byte{n}, most) }
	for n, mtu := range []int{1500, 1000, 576, 9000} {
		require.NoError(t, netlink.LinkSetMTU(lo, mtu))
		one, several := byte(n*(1+batch)), []byte(nil)
		require.NoError(t, a.Post(b.Tuple(), message(one)))
		for i := range batch {
			several = append(several, message(one+byte(i)+1)...)
		}
		require.NoError(t, a.PostAll(b.Tuple(), several, most))
		for i := range 1 + batch {
			require.True(t, got.Has(string(message(one+byte(i)))), "with an MTU of %d", mtu)
		}
	}
}
