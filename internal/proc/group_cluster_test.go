//go:build cluster

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
	"ibrun/test/waitfor"
)

// A process is born in the control group that it is given, and all that it forks.
func TestGroup(t *testing.T) {
	g := cgroup.Make("proc"+strconv.Itoa(os.Getpid()), 1)
	if g == nil {
		require.NotZero(t, os.Geteuid(), "root may make a group on this machine")
		skip.Because(t, "no control group of version 2 that this user may write to")
	}
	defer g.Remove(waitfor.Deadline)
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
