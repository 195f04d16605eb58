package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cgroup"
	"ibrun/internal/skip"
)

// A process is born in the control group that it is given, and all that it forks.
func TestGroup(t *testing.T) {
	g := cgroup.Make("proc"+strconv.Itoa(os.Getpid()), 1)
	if g == nil {
		require.NotZero(t, os.Geteuid(), "root may make a group on this machine")
		skip.Because(t, "no control group of version 2 that this user may write to")
	}
	defer g.Remove(patience)
	p, err := Start(Cmd{Path: "/bin/sh", Argv: []string{"sh", "-c", "sleep 1000 & wait"}, Setsid: true,
		Env: []string{"PATH=/usr/bin:/bin"}, Group: g.Dir()})
	require.NoError(t, err)
	require.Contains(t, g.Processes(), p.Pid())
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.Pid()), "cgroup"))
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(strings.TrimSpace(string(text)), filepath.Base(g.Dir().Name())), string(text))
	g.Kill()
	require.Equal(t, syscall.SIGKILL, ended(t, p).Signal())
}

// Where the kernel refuses a group, the process runs without.
func TestGroupRefused(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer dir.Close()
	p, err := Start(Cmd{Path: "/bin/true", Argv: []string{"true"}, Group: dir})
	require.NoError(t, err)
	require.Equal(t, 0, ended(t, p).ExitStatus())
}
