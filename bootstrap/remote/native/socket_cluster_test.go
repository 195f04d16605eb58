//go:build cluster

package native

import (
	"context"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/test/skip"
)

// dialed is a TCP connection as sessions have it.
func dialed(t *testing.T) net.Conn {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	l := &login{cfg: newServer(t).login(t)}
	at := listener.Addr().(*net.TCPAddr)
	l.cfg.Host, l.cfg.Port = at.IP.String(), uint16(at.Port)
	c, err := l.dial(t.Context(), time.Now().Add(time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// The wall clock may be set while a session runs: a connection's age is of the monotonic one.
func TestAgeIsMonotonic(t *testing.T) {
	w, err := newConn(dialed(t), nil)
	require.NoError(t, err)
	require.NotZero(t, w.inode())
	require.NotEqual(t, w.began.Round(0), w.began, "without its monotonic reading it is another time (package time)")
}

// A host that does not even answer: its queue of connections is full.
func TestHangsInConnect(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "full")
	defer f.Close()
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, syscall.Listen(fd, 0))
	at, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	cfg := newServer(t).login(t)
	cfg.Host, cfg.Port = "127.0.0.1", uint16(at.(*syscall.SockaddrInet4).Port)
	filler, err := net.Dial("tcp", (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(cfg.Port)}).String())
	require.NoError(t, err)
	defer filler.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = Start(ctx, cfg, "command", io.Discard, func(Phase) {})
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, Connect, e.Phase)
	require.Contains(t, e.Cause, "timed out")
}

// What is not acknowledged is sent again each two seconds, where the kernel can: a cut of almost
// five seconds is over for both sides two seconds later.
func TestResendsSoon(t *testing.T) {
	probe, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(probe)
	if _, err := unix.GetsockoptInt(probe, unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS); err != nil {
		skip.Because(t, "Linux before 6.15 has no bound for the time between repetitions of TCP")
	}
	raw, err := dialed(t).(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS)
		require.NoError(t, err)
		require.Equal(t, 2000, got)
	}))
}
