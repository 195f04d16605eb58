package proc

import (
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A child that has become its program since its parent last looked stays at the signal of that,
// which would kill it.
func TestHoldSeesArrival(t *testing.T) {
	c := Cmd{Path: "/bin/true", Argv: []string{"true"}, Env: os.Environ(), Hold: true}
	var p *Process
	waiting.start.Do(startReaping)
	func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		waiting.Lock()
		defer waiting.Unlock()
		pid, b, err := fork(c, nil)
		require.NoError(t, err)
		p = &Process{pid: pid, done: make(chan struct{})}
		waiting.live[pid], waiting.over = p, false
		var info unix.Siginfo
		require.NoError(t, unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOWAIT, nil))
		require.Equal(t, syscall.SIGTRAP, b.look(pid))
		require.NoError(t, b.result(c))
		require.NoError(t, unix.PtraceDetach(pid))
	}()
	<-p.Done()
	require.Equal(t, 0, p.Status().ExitStatus(), "%v", p.Status())
}
