// Package memgroup makes cgroups with little memory, for tests of what happens to
// ranks that need more. It takes either version of cgroups, as root.
package memgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/skip"
)

// Places are the hierarchies with memory, as they are usually mounted, and the
// files of a limit in each: of memory, and of memory and swap.
var places = []struct{ mount, controller, limit, swap string }{
	{"/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"},
	{"/sys/fs/cgroup", "", "memory.max", "memory.swap.max"},
}

// Enter makes a group of so many bytes and returns its name in the hierarchy, and
// the words that run a command in it. The group goes with the test.
func Enter(t *testing.T, bytes int) (group string, words []string) {
	for _, p := range places {
		own, ok := membership(t, p.controller)
		parent := filepath.Join(p.mount, own)
		if _, err := os.Stat(filepath.Join(parent, "cgroup.procs")); err != nil || !ok {
			continue
		}
		group = filepath.Join("/", own, "ibrun-"+strings.ReplaceAll(t.Name(), "/", "-"))
		dir := filepath.Join(p.mount, group)
		swap := bytes
		if p.controller == "" {
			require.NoError(t, os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+memory"), 0))
			swap = 0
		}
		require.NoError(t, os.Mkdir(dir, 0o755))
		t.Cleanup(func() {
			require.Eventually(t, func() bool { return os.Remove(dir) == nil }, 10*time.Second, 10*time.Millisecond,
				"what ended in it is being buried")
		})
		require.NoError(t, os.WriteFile(filepath.Join(dir, p.limit), fmt.Append(nil, bytes), 0))
		_ = os.WriteFile(filepath.Join(dir, p.swap), fmt.Append(nil, swap), 0) // not there where there is no swap
		return group, []string{"sh", "-c", "echo $$ >" + dir + `/cgroup.procs && exec "$@"`, "sh"}
	}
	skip.Because(t, "no cgroup of memory that this user may make")
	return "", nil
}

// membership is where this process is, from a line like "4:memory:/batch" or "0::/batch".
func membership(t *testing.T, controller string) (path string, ok bool) {
	text, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if words := strings.SplitN(strings.TrimSpace(line), ":", 3); len(words) == 3 && words[1] == controller {
			return words[2], true
		}
	}
	return "", false
}
