package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/build/pack"
	"ibrun/internal/executable"
)

var everyNumber = flag.Bool("every-number", false, "TestNumbersOfAgents runs all numbers up to 200")

// The tree fails at no number of agents: each small one, some where a level or a window is full,
// and a large one. `make numbers` runs all up to 200; every number up to 1200 runs in virtual time
// (test/sim).
func TestNumbersOfAgents(t *testing.T) {
	t.Parallel()
	trees := []string{"kary:2", "flat", "greedy", "two-level", "binomial"}
	numbers := []int{1000, 63, 64, 65, 128, 129, 200}
	small := 24
	if *everyNumber {
		small, numbers = 200, numbers[:1]
	}
	for n := 1; n <= small; n++ {
		numbers = append(numbers, n)
	}
	for i, n := range numbers {
		hosts := fmt.Sprintf("h[0001-%04d]", n)
		tree := trees[i%len(trees)]
		cmd := command(t, "--launcher", "local", "--hosts", hosts, "--tree", tree, "sh", "-c", "echo $IBRUN_HOST")
		cmd.Env = append(os.Environ(), mark(t))
		o := finish(t, cmd)
		require.Equal(t, 0, o.code, "%d agents, %s: %s", n, tree, o.stderr)
		seen := map[string]bool{}
		for _, h := range strings.Fields(string(o.stdout)) {
			seen[h] = true
		}
		require.Len(t, seen, n, tree)
	}
	// Agents have the mark, too. One that has said its last word is given the moment to be gone.
	eventually(t, 2*time.Second, "nothing is left", func() bool { return len(marked(mark(t))) == 0 })
}

// The bounds on size: an agent at 16 ranks has 5 MiB of its own, and 8 MiB with the pages of the
// binary that it shares with the page cache, in a job of 16 ranks as in one of 256. A reaper that
// begins before Go has next to nothing of its own, and of the page cache what the kernel maps
// around one page: 2 MiB, if the file lies in large pages. The binary is within 18 MB with the
// program of a leaf, and 4 MB more with what is sent to a node that has zstd.
func TestSizes(t *testing.T) {
	best := filepath.Join(t.TempDir(), "ibrun")
	text, err := os.ReadFile(program)
	require.NoError(t, err)
	require.NoError(t, executable.Write(best, text))
	kept := best + ".zst"
	require.NoError(t, pack.Into(best, kept, pack.Best))
	size := func(file string) int64 {
		st, err := os.Stat(file)
		require.NoError(t, err)
		return st.Size()
	}
	require.LessOrEqual(t, size(kept), int64(4_000_000))
	require.LessOrEqual(t, size(best)-size(kept), int64(18_000_000))
	most := map[string]int{":agent": 8 << 10, ":reaper": 8 << 10} // KiB
	own := map[string]int{":agent": 5 << 10, ":reaper": 5 << 10}
	if runtime.GOARCH == "amd64" {
		most[":reaper"], own[":reaper"] = 2<<10+256, 64 // no runtime of Go
	}
	for _, nodes := range []int{1, 16} {
		cmd := command(t, "-ppn", "16", "--launcher", "local", "--hosts", fmt.Sprintf("h[01-%02d]", nodes), "sleep",
			"1000")
		cmd.Env = append(os.Environ(), mark(t))
		require.NoError(t, cmd.Start())
		ranks := 16 * nodes
		eventually(t, patience, "all ranks run", func() bool { return len(marked(mark(t))) == 1+2*nodes+ranks })
		alone := func() bool { return len(agents(":agent")) == nodes } // a rank is a copy of its agent until exec
		eventually(t, patience, "each rank runs its program", alone)
		for _, role := range []string{":agent", ":reaper"} {
			pids := agents(role)
			require.Len(t, pids, nodes)
			for _, pid := range pids {
				require.LessOrEqual(t, memory(t, pid, "RssAnon"), own[role], "KiB of %s in a job of %d", role, ranks)
				require.LessOrEqual(t, memory(t, pid, "VmHWM"), most[role], "KiB of %s in a job of %d", role, ranks)
			}
		}
		for _, role := range []string{":agent", ":reaper"} {
			pid := agents(role)[0]
			t.Logf("%d nodes: %s has %d KiB of its own, its peak is %d KiB", nodes, role, memory(t, pid, "RssAnon"),
				memory(t, pid, "VmHWM"))
		}
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait()
	}
}

// What an agent does before it does anything: the initialisation of its packages.
// A library that is linked in for a small thing and sets up tables at its start
// shows here, and costs every node of every job.
func TestStartUp(t *testing.T) {
	cmd := command(t, ":agent")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	o := finish(t, cmd)
	packages, bytes, allocations := 0, 0, 0
	for line := range strings.Lines(o.stderr) {
		var name string
		var at, clock float64
		var b, a int
		if n, _ := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes, %d allocs", &name, &at, &clock, &b,
			&a); n == 5 {
			packages, bytes, allocations = packages+1, bytes+b, allocations+a
			require.NotContains(t, []string{"net/http", "text/template", "html/template", "testing", "expvar"}, name)
		}
	}
	t.Logf("%d packages, %d bytes in %d allocations before main", packages, bytes, allocations)
	require.Greater(t, packages, 10, "the trace was not understood: %s", o.stderr)
	require.LessOrEqual(t, packages, 100)
	require.LessOrEqual(t, bytes, 96<<10)
	require.LessOrEqual(t, allocations, 800)
}

// memory is a line of a process's status, in KiB (proc_pid_status(5)).
func memory(t *testing.T, pid int, line string) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(b), line+":")
	require.True(t, ok)
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return n
}
