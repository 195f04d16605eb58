//go:build cluster

package spawn

import (
	"net"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/bootstrap/clients/charm"
	"ibrun/bootstrap/clients/pmix/pmixtest"
	"ibrun/bootstrap/clients/pmixserver"
	"ibrun/test/skip"
	"ibrun/test/waitfor"
)

// calling is a connection to a port of the loopback that another user's process has
// made: a socket belongs to the file system's user of the thread that makes it.
func calling(t *testing.T, port, uid int) (fd int) {
	if os.Geteuid() != 0 {
		skip.Because(t, "only root can make sockets of another user")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, err := unix.SetfsuidRetUid(uid)
	require.NoError(t, err)
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	_, errBack := unix.SetfsuidRetUid(os.Geteuid())
	require.NoError(t, errBack)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	require.NoError(t, unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port}))
	return fd
}

// Both ways to find out whose a caller is: the kernel's answer and its table.
func TestCallerOf(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	at := l.Addr().(*net.TCPAddr).Port
	for _, uid := range []int{0, 65534, 4321} {
		theirs := calling(t, at, uid)
		c, err := l.Accept()
		require.NoError(t, err)
		ours := c.(*net.TCPConn)
		got, err := Caller(ours)
		require.NoError(t, err)
		require.Equal(t, uid, got)

		x := connection{c.RemoteAddr().(*net.TCPAddr).AddrPort(), c.LocalAddr().(*net.TCPAddr).AddrPort()}
		got, err = x.askKernel()
		require.NoError(t, err, "this machine's kernel has sock_diag")
		require.Equal(t, uid, got)
		table, err := os.ReadFile("/proc/self/net/tcp")
		require.NoError(t, err)
		got, err = x.find(table)
		require.NoError(t, err)
		require.Equal(t, uid, got)
		back := connection{x.to, x.from} // the agent's own end is not the caller's
		got, err = back.find(table)
		require.NoError(t, err)
		require.Equal(t, os.Geteuid(), got)

		// Once it is closed, the kernel would say that it is user 0's.
		require.NoError(t, unix.Shutdown(theirs, unix.SHUT_RDWR))
		_, err = c.Read(make([]byte, 1))
		require.Error(t, err)
		_, err = Caller(ours)
		require.ErrorIs(t, err, errNoCaller)
		c.Close()
	}
	_, err = (&connection{}).find([]byte("  sl  local_address rem_address   st\n   0: 00000000:0000\n"))
	require.ErrorIs(t, err, errNoCaller)
}

// deaf asserts that a port hangs up on another user, whatever it says, and that its user hears of it
// once.
func deaf(t *testing.T, p *port, events <-chan Event, words []byte) {
	for i := range 3 {
		fd := calling(t, p.number, 65534)
		_, _ = unix.Write(fd, words) // it may have been closed already
		wait := unix.Timeval{Sec: int64(waitfor.Deadline / time.Second)}
		require.NoError(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait))
		n, err := unix.Read(fd, make([]byte, 1))
		require.True(t, n <= 0 && err != unix.EAGAIN, "closed, not answered")
		if i == 0 {
			says := "user 65534 of this node calls " + p.name + ", and is not answered"
			require.Equal(t, Warning{says}, next(t, events))
		}
	}
	require.Empty(t, events, "said once")
}

// Another user of the node is not heard, whatever number it says, and this user's
// ranks are, meanwhile.
func TestPortHearsItsUserOnly(t *testing.T) {
	s, events := listening(t)
	_, id := s.PMI.told(t, 4)
	words := []byte("cmd=initack pmiid=" + strconv.Itoa(id) + "\n")
	deaf(t, &s.PMI.port, events, words)
	dial(t, s, events, string(words))
}

// The same at the port of PMIx, even if the user knows the namespace and claims the right uid.
func TestPMIxHearsItsUserOnly(t *testing.T) {
	s, events := servingPMIx(t)
	words := pmixtest.New("the namespace", 4).Hello()
	deaf(t, &s.PMIx.port, events, words)
	s.PMIx.dial(t, string(words))
	require.IsType(t, pmixserver.Placement{}, next(t, events), "a stranger gets no folder made")
	require.Equal(t, words, next(t, events).(PMIxBytes).Bytes)
}

// Another user of the node is not heard at the port of Charm++, though it says the right word, and
// this user's programs are.
func TestCharmHearsItsUserOnly(t *testing.T) {
	s, events := servingCharm(t)
	words := charm.Append(nil, charm.InitNode, 40, make([]byte, 40)...)
	deaf(t, &s.Charm, events, words)
	s.Charm.dial(t, string(words))
	require.Equal(t, words, next(t, events).(CharmBytes).Bytes)
}
