//go:build cluster

package spawn

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/bootstrap/core"
	"ibrun/internal/job"
)

// The start of ranks that hangs is given up, with what it hangs in; what comes to life
// later is too late. A pipe that nobody writes to hangs whoever opens it.
func TestStartHangs(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	events := make(chan Event, 100)
	s := New(Config{
		Job: &job.Job{
			Size: 2, Programs: []job.Program{{Count: 2, Argv: []string{"/bin/true"}, Dir: "/"}},
			Launch: job.LaunchOptions{Timeout: time.Second}, Output: job.Output{StdinFile: pipe},
		},
		Node: job.Node{Host: "n", Ranks: 2}, Events: recorder(func(ev Event) { events <- ev }),
	})
	go s.Start()
	why := "open " + pipe + ": it has not returned for 1s; hint: does its file system answer on that node? --launch-timeout allows more"
	require.Equal(t, core.ForkDone{Failed: []core.ForkFailure{{Rank: 0, Code: 126, Cause: why}, {Rank: 1, Code: 126, Cause: why}}}, next(t, events))
	require.False(t, s.stall.allow(s.ranks[0], nil))

	fd, err := unix.Open(pipe, unix.O_RDWR, 0) // lets it go
	require.NoError(t, err)
	unix.Close(fd)
}

// Those that run before one that hangs have not failed.
func TestOneOfManyHangs(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "3"), 0o600))
	events := make(chan Event, 100)
	s := New(Config{
		Job: &job.Job{
			Size: 5, Programs: []job.Program{{Count: 5, Argv: []string{"/bin/sleep", "1000"}, Dir: dir}},
			Launch: job.LaunchOptions{Timeout: 3 * time.Second}, Output: job.Output{StdinFile: "%r"},
		},
		Node: job.Node{Host: "n", Ranks: 5}, Events: recorder(func(ev Event) { events <- ev }),
	})
	for _, name := range []string{"0", "1", "2", "4"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	t.Cleanup(func() { s.Signal(unix.SIGKILL) })
	go s.Start()
	done, ok := next(t, events).(core.ForkDone)
	require.True(t, ok)
	require.Len(t, done.Failed, 2, "%v", done)
	require.Equal(t, job.Slot(3), done.Failed[0].Rank)

	fd, err := unix.Open(filepath.Join(dir, "3"), unix.O_RDWR, 0) // lets it go
	require.NoError(t, err)
	unix.Close(fd)
}
