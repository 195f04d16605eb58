package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/skip"
)

// process makes what place reads.
func process(t *testing.T, groups, mounts string) string {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup"), []byte(groups), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mountinfo"), []byte(mounts), 0o644))
	return dir
}

func TestPlace(t *testing.T) {
	const v1 = "31 25 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
	for _, c := range []struct{ name, groups, mounts, root, own string }{
		{"unified", "0::/a/b\n", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup",
			"/sys/fs/cgroup/a/b"},
		{"hybrid", "2:cpu:/x\n0::/\n", v1 + "41 31 0:38 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 none rw\n",
			"/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified"},
		{"part of it is mounted", "0::/a/b\n", "30 25 0:26 /a /mnt rw - cgroup2 cgroup2 rw\n", "/mnt", "/mnt/b"},
		{"outside of what is mounted", "0::/a/b\n", "30 25 0:26 /c /mnt rw - cgroup2 cgroup2 rw\n", "", ""},
		{"above the namespace", "0::/../b\n", "30 25 0:26 / /mnt rw - cgroup2 cgroup2 rw\n", "", ""},
		{"a name that begins alike", "0::/ab\n", "30 25 0:26 /a /mnt rw - cgroup2 cgroup2 rw\n", "", ""},
		{"version 1", "2:cpu:/x\n", v1, "", ""},
	} {
		root, own := place(process(t, c.groups, c.mounts))
		require.Equal(t, []string{c.root, c.own}, []string{root, own}, c.name)
	}
	root, own := place("/nonexistent")
	require.Empty(t, root+own)
}

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
	g := Make("0123456789abcdef", 7)
	if g == nil {
		require.NotZero(t, os.Geteuid(), "root may make a group on this machine")
		skip.Because(t, "no control group of version 2 that this user may write to")
	}
	require.Nil(t, Make("0123456789abcdef", 7), "it is there")
	cmd := exec.Command("sh", "-c", "(env -i setsid sleep 1000 </dev/null >/dev/null 2>&1 &); exec sleep 1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(g.Dir().Fd())}
	require.NoError(t, cmd.Start())
	// The shell between them is in the group for a moment, too.
	require.Eventually(t, func() bool {
		return slices.Equal(programs(g), []string{"sleep", "sleep"})
	}, 10*time.Second, time.Millisecond)
	require.False(t, g.Remove(0), "processes are in it")
	tidy(0)
	other := Find("0123456789abcdef", 7)
	require.NotNil(t, other)
	require.Equal(t, g.path, other.path)
	require.Len(t, other.Processes(), 2)
	other.Kill()
	require.Error(t, cmd.Wait())
	require.True(t, other.Remove(10*time.Second))
	require.NoDirExists(t, g.path)
	require.Nil(t, Find("0123456789abcdef", 7))
	g.Kill()
	require.Empty(t, g.Processes())
	require.True(t, g.Remove(0))
}

// A group that nobody uses any more is removed by whoever comes by.
func TestTidy(t *testing.T) {
	g := Make("fedcba9876543210", 1)
	if g == nil {
		require.NotZero(t, os.Geteuid(), "root may make a group on this machine")
		skip.Because(t, "no control group of version 2 that this user may write to")
	}
	Tidy()
	require.DirExists(t, g.path, "somebody may be about to use it")
	tidy(0)
	require.NoDirExists(t, g.path)
	require.True(t, g.Remove(0))
}

func TestNoGroup(t *testing.T) {
	var g *Group
	require.Nil(t, g.Dir())
	g.Kill()
	require.Empty(t, g.Processes())
	require.True(t, g.Remove(0))
}
