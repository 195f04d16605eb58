//go:build cluster

package udp

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// streams is a stream between two endpoints that take so much silence.
func streams(t *testing.T, silence time.Duration) (near, far *net.TCPConn) {
	a, _ := open(t, Config{Addr: here, Silence: silence})
	accepted := make(arrived, 1)
	b, err := Open(Config{Addr: here, Silence: silence}, accepted)
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	offer, err := b.Offer()
	require.NoError(t, err)
	s, err := a.Dial(t.Context(), b.Tuple(), offer)
	require.NoError(t, err)
	s2 := <-accepted
	t.Cleanup(func() { s.Close(); s2.Close() })
	return s.(*net.TCPConn), s2.(*net.TCPConn)
}

// deafen makes the kernel drop what comes for a socket before it looks at it, so that it
// acknowledges nothing.
func deafen(t *testing.T, c *net.TCPConn) {
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	require.NoError(t, raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: 1, Filter: &drop})
	}))
	require.NoError(t, err)
}

// fill writes until the far side would have to take something, and reports how much that was.
func fill(t *testing.T, c *net.TCPConn) (n int) {
	require.NoError(t, c.SetWriteDeadline(time.Now().Add(200*time.Millisecond)))
	for b := make([]byte, 64<<10); ; {
		k, err := c.Write(b)
		if n += k; err != nil {
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			break
		}
	}
	require.NoError(t, c.SetWriteDeadline(time.Time{}))
	return n
}

// A receiver that takes nothing for many times as long as a kernel may be silent has all that was
// sent when it takes it.
func TestBusyReceiver(t *testing.T) {
	const silence, more = 500 * time.Millisecond, 16 << 20
	near, far := streams(t, silence)
	n := fill(t, near)
	written := make(chan error, 1)
	go func() {
		_, err := near.Write(make([]byte, more))
		written <- err
	}()
	select {
	case err := <-written:
		require.Fail(t, "there was no room", "%v", err)
	case <-time.After(10 * silence):
	}
	_, err := io.ReadFull(far, make([]byte, n+more))
	require.NoError(t, err)
	require.NoError(t, <-written)
}

// A far kernel that acknowledges nothing ends the stream, be data under way, or only probes of a
// window that was shut before.
func TestSilentKernel(t *testing.T) {
	for name, before := range map[string]func(*testing.T, *net.TCPConn) int{
		"data":  func(*testing.T, *net.TCPConn) int { return 0 },
		"probe": fill,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits
			const silence = 2 * time.Second
			near, far := streams(t, silence)
			before(t, near)
			deafen(t, far)
			began := time.Now()
			var err error
			for b := make([]byte, 64<<10); err == nil; {
				_, err = near.Write(b)
			}
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.GreaterOrEqual(t, time.Since(began), silence/2)
		})
	}
}
