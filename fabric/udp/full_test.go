package udp

import (
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/fabric"
	"ibrun/internal/skip"
)

// ownNetwork moves the test's goroutine to a network namespace of its own, in
// which no neighbour answers. Its thread ends with the test.
func ownNetwork(t *testing.T) (addr, neighbour netip.Addr) {
	if os.Geteuid() != 0 {
		skip.Because(t, "only root may make a network namespace")
	}
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
	began := time.Now()
	for range posts {
		require.NoError(t, f.Post(to, m))
	}
	require.Less(t, time.Since(began), 30*time.Second, "the kernel gives the neighbour three seconds, each time")
	c := f.Counters()
	require.EqualValues(t, posts, c.Sent+c.Lost)
	require.Greater(t, c.Lost, uint64(posts/2))
	require.Equal(t, c.Sent*1400, c.SentBytes)
}
