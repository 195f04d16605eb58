//go:build cluster

package reaper

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/proc"
	"ibrun/test/skip"
	"ibrun/test/waitfor"
)

// TestBornInGroup starts a shell with the control group of a Group. The shell must be in this group, and Kill must end
// it.
func TestBornInGroup(t *testing.T) {
	g := MakeGroup("proc"+strconv.Itoa(os.Getpid()), 1)
	if g == nil {
		require.NotZero(t, os.Geteuid(), "root may make a group on this machine")
		skip.Because(t, "no control group of version 2 that this user may write to")
	}
	defer g.Remove(waitfor.Deadline)
	p, err := proc.Start(proc.Cmd{Path: "/bin/sh", Argv: []string{"sh", "-c", "sleep 1000 & wait"}, Setsid: true,
		Env: []string{"PATH=/usr/bin:/bin"}, Group: g.Dir()})
	require.NoError(t, err)
	require.Contains(t, g.Processes(), p.Pid())
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.Pid()), "cgroup"))
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(strings.TrimSpace(string(text)), filepath.Base(g.Dir().Name())), string(text))
	g.Kill()
	waitfor.Closed(t, p.Done())
	require.Equal(t, syscall.SIGKILL, p.Status().Signal())
}
