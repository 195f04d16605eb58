package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ibruns are all live processes of this ibrun that bear a mark: root, reapers, agents.
func ibruns(mark string) (pids []int) {
	for _, pid := range marked(mark) {
		if exe, err := os.Readlink(filepath.Join("/proc", pid, "exe")); err == nil && exe == program {
			number, _ := strconv.Atoi(pid)
			pids = append(pids, number)
		}
	}
	return pids
}

// A job in namespaces of its own runs as any other.
func TestContain(t *testing.T) {
	o := ibrun(t, "--contain", "--keep-going", "-n", "4", "--launcher", "local", "--hosts", "a,b", "--tree", "chain",
		"sh", "-c", "echo $IBRUN_RANK $(readlink /proc/self) $$; exit $((IBRUN_RANK == 3 ? 7 : 0))")
	require.Equal(t, 7, o.code, o.stderr)
	seen := strings.Fields(string(o.stdout))
	require.Len(t, seen, 12)
	for i := 0; i < len(seen); i += 3 {
		number, err := strconv.Atoi(seen[i+2])
		require.NoError(t, err)
		require.Less(t, number, 1000, "ranks are numbered in their node's namespace")
	}
}

// With --contain nothing survives when every process of ibrun is killed in the same instant.
func TestContainLeavesNothing(t *testing.T) {
	mark := mark(t)
	cmd := command(t, "--contain", "-n", "6", "--launcher", "local", "--hosts", "a,b,c", "--tree", "kary:2", "sh", "-c",
		"(env -i "+mark+" setsid sh -c 'sleep 1000 & exec sleep 1000' </dev/null >/dev/null 2>&1 &); exec sleep 1000")
	cmd.Env = append(os.Environ(), mark)
	require.NoError(t, cmd.Start())
	// Root; three of each role; per rank a sleep and two strays.
	eventually(t, 2*time.Minute, "all is up", func() bool { return len(marked(mark)) >= 1+9+18 })
	victims := ibruns(mark)
	require.Len(t, victims, 1+9)
	for _, pid := range victims {
		_ = syscall.Kill(pid, syscall.SIGKILL) // some are gone with the others by now
	}
	_ = cmd.Wait()
	eventually(t, 5*time.Second, "nothing is left", func() bool { return len(marked(mark)) == 0 })
}
