package reaper

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
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

func TestNoGroup(t *testing.T) {
	var g *Group
	require.Nil(t, g.Dir())
	g.Kill()
	require.Empty(t, g.Processes())
	require.True(t, g.Remove(0))
}
