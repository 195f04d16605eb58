//go:build cluster

package reaper

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/skip"
	"ibrun/test/waitfor"
)

// programs are the names of what the group's processes run now.
func programs(g *Group) (names []string) {
	for _, pid := range g.Processes() {
		name, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
		names = append(names, strings.TrimSpace(string(name)))
	}
	return names
}

// What is born in a group is killed with all that it has forked, and the group can be removed.
func TestKill(t *testing.T) {
	g := MakeGroup("0123456789abcdef", 7)
	if g == nil {
		require.NotZero(t, os.Geteuid(), "root may make a group on this machine")
		skip.Because(t, "no control group of version 2 that this user may write to")
	}
	require.Nil(t, MakeGroup("0123456789abcdef", 7), "the group exists already")
	cmd := exec.Command("sh", "-c", "(env -i setsid sleep 1000 </dev/null >/dev/null 2>&1 &); exec sleep 1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(g.Dir().Fd())}
	require.NoError(t, cmd.Start())
	// The shell between them is in the group for a moment, too.
	waitfor.Require(t, "both programs run", func() bool { return slices.Equal(programs(g), []string{"sleep", "sleep"}) })
	require.False(t, g.Remove(0), "processes are in it")
	tidy(0)
	other := FindGroup("0123456789abcdef", 7)
	require.NotNil(t, other)
	require.Equal(t, g.path, other.path)
	require.Len(t, other.Processes(), 2)
	other.Kill()
	require.Error(t, cmd.Wait())
	require.True(t, other.Remove(waitfor.Deadline))
	require.NoDirExists(t, g.path)
	require.Nil(t, FindGroup("0123456789abcdef", 7))
	g.Kill()
	require.Empty(t, g.Processes())
	require.True(t, g.Remove(0))
}

// A group that nobody uses any more is removed by whoever comes by.
func TestTidy(t *testing.T) {
	g := MakeGroup("fedcba9876543210", 1)
	if g == nil {
		require.NotZero(t, os.Geteuid(), "root may make a group on this machine")
		skip.Because(t, "no control group of version 2 that this user may write to")
	}
	tidy(unused)
	require.DirExists(t, g.path, "somebody may be about to use it")
	tidy(0)
	require.NoDirExists(t, g.path)
	require.True(t, g.Remove(0))
}
