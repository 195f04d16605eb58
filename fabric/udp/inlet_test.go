package udp

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/fabric"
	"ibrun/internal/poll"
	"ibrun/test/waitfor"
)

// inletOf is an inlet and a way to send to it. It waits in the kernel for as long as it takes.
func inletOf(t *testing.T) (in *inlet, send func(b string)) {
	f, _ := open(t, Config{Addr: here, MTU: 1500})
	socket, tuple, err := listen("udp4", netip.AddrPortFrom(here, 0))
	require.NoError(t, err)
	t.Cleanup(func() { socket.Close() })
	in, err = newInlet(socket, 1472, true, poll.Spinner{})
	require.NoError(t, err)
	t.Cleanup(func() { in.ready.Close() })
	require.NoError(t, control(in.socket, func(fd int) error {
		return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 60})
	}))
	return in, func(b string) { require.NoError(t, f.send(tuple, []byte(b), 0)) }
}

// soon waits until f returns.
func soon(t *testing.T, f func()) {
	done := make(chan struct{})
	go func() { f(); close(done) }()
	waitfor.Closed(t, done)
}

// whenReceiving calls f when another goroutine is inside i.next, which polls the socket or sleeps in a system call.
func (i *inlet) whenReceiving(f func()) {
	for !i.inside.Load() {
		runtime.Gosched()
	}
	f()
}

// After a first datagram a driver waits in the kernel, where another one and Wake reach it.
func TestInletWaitsInKernel(t *testing.T) {
	in, send := inletOf(t)
	in.wakes.Store(true)
	send("first")
	n, err := in.next(true)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	in.short = leastShort // a busy machine may have been slow
	for _, end := range []struct {
		by   func()
		came int
	}{{func() { send("second") }, 1}, {func() { in.wake(func() { send("") }) }, 1}, {func() { send("third") }, 1}} {
		soon(t, func() {
			go in.whenReceiving(end.by)
			n, err = in.next(true)
		})
		require.NoError(t, err)
		require.Equal(t, end.came, n)
		require.False(t, in.watch, "what waits in Go's poller is not woken")
	}
	require.False(t, in.slept(), "it was woken once")
}

// A receiver that polls takes what comes without going to sleep, and Wake ends that too.
func TestInletPolls(t *testing.T) {
	in, send := inletOf(t)
	in.wakes.Store(true)
	in.spin = poll.NewSpinner(time.Minute, false)
	for _, end := range []struct {
		by   func()
		came int
	}{{func() { send("one") }, 1}, {func() { in.wake(func() {}) }, 0}} {
		in.short = leastShort
		soon(t, func() {
			go in.whenReceiving(end.by)
			n, err := in.next(true)
			require.NoError(t, err)
			require.Equal(t, end.came, n)
		})
	}
}

// Without proof that it can be woken in the kernel, and if it is not a driver, it waits in Go's
// poller; so it does when it was woken before it waits.
func TestInletWaitsInPoller(t *testing.T) {
	in, send := inletOf(t)
	for _, proof := range []bool{false, true} {
		in.wakes.Store(proof)
		for range 2 {
			send("one")
			n, err := in.next(!proof)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			in.short = leastShort
		}
		in.wake(func() { t.Error("it does not wait in the kernel") })
		soon(t, func() {
			n, err := in.next(!proof)
			require.NoError(t, err)
			require.Zero(t, n)
		})
		require.True(t, in.watch)
	}
	in.inside.Store(true)
	reached := false
	in.wake(func() { reached = true })
	require.True(t, reached)
}

// A wait in the kernel that brings nothing makes the next one there rarer, and one that brings a
// datagram makes it more common.
func TestInletGivesUp(t *testing.T) {
	in, send := inletOf(t)
	in.wakes.Store(true)
	require.NoError(t, control(in.socket, func(fd int) error {
		return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 1})
	}))
	for _, need := range []int{2, 4, 8, 16, 32, 64, 64} {
		in.short = in.need
		require.NoError(t, in.ready.SetReadDeadline(past)) // of the wait behind that
		n, err := in.next(true)
		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, need, in.need)
		require.Zero(t, in.short)
	}
	in.short = in.need
	send("there")
	n, err := in.next(true)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, mostShort-1, in.need)
}

// One system call brings what is there, in its order, each with its sender.
func TestInletTakesSeveral(t *testing.T) {
	in, send := inletOf(t)
	const each = 5
	for range 100 {
		for n := range each {
			send(string(rune('a' + n)))
		}
		all, most := "", 0
		for len(all) < each {
			n, err := in.next(true)
			require.NoError(t, err)
			most = max(most, n)
			for i := range n {
				from, b := in.datagram(i)
				require.Equal(t, fabric.ETH4, from.Kind)
				require.Equal(t, here, from.AddrPort().Addr())
				require.NotZero(t, from.Num)
				all += string(b)
			}
		}
		require.Equal(t, "abcde", all)
		if most > 1 { // a busy machine may bring them one by one
			return
		}
	}
	require.FailNow(t, "each call brings one")
}
