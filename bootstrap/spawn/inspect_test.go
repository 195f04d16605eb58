package spawn

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"ibrun/test/waitfor"

	"github.com/stretchr/testify/require"
)

const gdbPrinted = `[New LWP 12]
0x00007f in __GI___poll () from /lib/libc.so.6

Thread 3 (Thread 0x7f (LWP 13) "progress"):
#0  0x00007f in __GI_epoll_wait (epfd=3) at wait.c:30
#1  0x00007f in progress ()

Thread 2 (Thread 0x7f (LWP 12) "x"):
#0  runtime.futex () at sys_linux_amd64.s:557
#1  0x00007f in runtime.futexsleep (addr=0x1) at os.go:69
#2  0x00007f in internal/runtime/syscall/linux.EpollWait ()
#3  0x0000000000000000 in ?? ()

Thread 1 (Thread 0x7f (LWP 11) "prog"):
#0  0x00007f in __GI___poll (fds=0x1, nfds=1) at poll.c:29
#1  0x00007f in MPIDI_Progress ()
#2  main () at prog.c:7
`

const euPrinted = `PID 11 - process
TID 11:
#0  0x00007f poll
#1  0x00007f main
TID 12:
#0  0x00007f epoll_wait
TID 13:
#0  0x00007f epoll_wait
`

// Stacks have no addresses and arguments, so that those of ranks that are at the same place are
// equal; the first thread comes first, and idle threads of the Go runtime do not count.
func TestMerged(t *testing.T) {
	require.Equal(t, "__GI___poll <- MPIDI_Progress <- main\n__GI_epoll_wait <- progress", Merged(gdbPrinted))
	require.Equal(t, "poll <- main\nepoll_wait", Merged(euPrinted))
	_, rest, _ := strings.Cut(gdbPrinted, "Thread 2")
	before, _, _ := strings.Cut(rest, "Thread 1")
	require.Equal(t, idleGo, Merged("Thread 2"+before))
	require.Empty(t, Merged("ptrace: Operation not permitted.\n"))
	require.Empty(t, Merged("Thread 1 (x):\n"))
	require.NotPanics(t, func() { Merged("#0\n# \nThread\n#1  0x1\n#2 0x1 in\n") })
}

// A shell around a program is passed over: the program is what waits.
func TestLookAtAProgramInAShell(t *testing.T) {
	c := exec.Command("sh", "-c", "sleep 600; true")
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	var looks Looks
	var look Look
	waitfor.Require(t, "the program sleeps", func() bool {
		var lives bool
		look, lives = looks.At(c.Process.Pid)
		return lives && look.Waits == "nanosleep"
	})
	t.Cleanup(func() { _ = syscall.Kill(look.worker, syscall.SIGKILL) })
	require.NotEqual(t, c.Process.Pid, look.worker)
	require.Equal(t, byte('S'), look.State)
	require.Positive(t, look.Memory)
	require.NotEmpty(t, look.CPUs)
	require.False(t, isGo(look.worker))
	require.True(t, isGo(os.Getpid()))
	require.Equal(t, "in nanosleep", Tool{}.Stack(look, 0))
}

// What computes waits for nothing, and is busy.
func TestLookAtWhatComputes(t *testing.T) {
	c := exec.Command("sh", "-c", "while :; do :; done")
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	var looks Looks
	waitfor.Require(t, "it computes", func() bool {
		look, lives := looks.At(c.Process.Pid)
		return lives && look.State == 'R' && look.Waits == "" && look.Busy > 0 && look.CPU > 0
	})
	look, _ := looks.At(c.Process.Pid)
	if look.Waits == "" {
		require.Equal(t, "computes", Tool{}.Stack(look, 0))
	}
	_, lives := looks.At(1 << 30)
	require.False(t, lives)
}
