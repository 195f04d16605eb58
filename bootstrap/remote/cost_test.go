package remote

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ofProcess is a line that a process carries.
type ofProcess struct {
	line
	pid int
}

func (o ofProcess) Pids() []int { return []int{o.pid} }

// What this process computes counts, and so does a session's process while the session is on its
// way.
func TestRan(t *testing.T) {
	used := func() time.Duration {
		var u unix.Rusage
		require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	var s Starter
	s.Ran()
	for until := used() + 30*time.Millisecond; used() < until; {
	}
	require.GreaterOrEqual(t, s.Ran(), 20*time.Millisecond)
	ses := &Session{line: ofProcess{pid: os.Getppid()}}
	s.coming.Store(ses, true)
	s.Ran()
	require.Positive(t, s.ran[os.Getppid()])
	s.coming.Delete(ses)
	s.Ran()
	require.NotContains(t, s.ran, os.Getppid())
}
