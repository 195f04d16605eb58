//go:build soak

package ssh

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/reaper"
	"ibrun/internal/libpmi"
	"ibrun/test/vcluster/cluster"
)

// TestControlOfManyRanks does the same as TestControlOverNodes for more ranks, and for programs of MPICH and Open MPI.
// Waiting ranks of these libraries use all CPU time, and the debugger must still reach all of them in time.
func TestControlOfManyRanks(t *testing.T) {
	c := shared(t, 16)
	require.NotNil(t, libpmi.Image(), "the binary has no libpmi: run make libpmi")
	programs := map[string]string{
		"package ibrun": example(t, c, "test/cluster/talker"),
		"MPICH":         compiledBy(t, c, "mpicc.mpich", "packages mpich and libmpich-dev are needed"),
		"Open MPI":      compiledBy(t, c, "mpicc.openmpi", "packages openmpi-bin and libopenmpi-dev are needed"),
	}
	controlOverNodes(t, c, 4, 2, programs)
	controlOverNodes(t, c, 16, 16, programs)
}

// compiledBy compiles the program of test/mpi with the compiler of an MPI library. If compilation fails, the test
// fails, and its message contains need.
func compiledBy(t *testing.T, c *cluster.Cluster, compiler, need string) string {
	t.Helper()
	path := filepath.Join(c.Shared(), compiler+".program")
	if _, err := os.Stat(path); err == nil { // a test on this cluster has compiled it
		return path
	}
	out, err := exec.Command(compiler, "-o", path, "../../mpi/testdata/mpi.c").CombinedOutput()
	require.NoError(t, err, "%s: %s", need, out)
	return path
}

func TestResizeOfManyNodes(t *testing.T) { resizeOverNodes(t, 8, 4, 8) }

// TestAllTreesOnSixtyFourNodes starts jobs on 64 nodes over ssh, rsh and the rsh stand-in, in trees of several shapes,
// with up to 1,024 ranks.
func TestAllTreesOnSixtyFourNodes(t *testing.T) {
	c := own(t, cluster.Config{Nodes: 64, RSH: true})
	for _, session := range []string{"ssh", "rsh", "stand-in"} {
		for _, tree := range []string{"flat", "kary:2", "kary:8", "two-level"} {
			launchOn(t, c, session, tree, 64, 2)
		}
		launchOn(t, c, session, "greedy", 64, 16)
	}
	exchangeOn(t, c, "auto", 64, 16)
	exchangeOn(t, c, "kary:2", 64, 4)
	requireNothingLeft(t, c)
}

// printed matches a line of test/cluster/mender. It captures the rank and the time, in milliseconds since 1970, at
// which the line was printed.
var printed = regexp.MustCompile(`rank (\d+) line \d+ \w+ of (\d+)\n`)

// TestLostAgentOfManyNodes kills an agent that has a third of all nodes below it. All agents below it must connect to a
// new parent, so that lines which their ranks print after the kill arrive.
func TestLostAgentOfManyNodes(t *testing.T) {
	const nodes = 64
	c := shared(t, nodes)
	program := example(t, c, "test/cluster/mender")
	lines := 60 + 5*nodes
	j := watch(t, c, "--on-agent-loss", "repair", "--tree", "kary:3", "-n", strconv.Itoa(nodes), "--hosts",
		fmt.Sprintf("node[0001-%04d]", nodes), program, "-lines", strconv.Itoa(lines))
	j.until(fmt.Sprintf("rank %d line 20 ", nodes-1))
	j.kill(j.processes("node0001", role(reaper.Agent))...)
	killed := time.Now()
	from := len(j.out.String())
	all := func() bool { // reports whether each rank has printed a line after the kill that has arrived
		fresh := map[string]bool{"0": true}
		for _, line := range printed.FindAllStringSubmatch(j.out.String()[from:], -1) {
			if ms, err := strconv.ParseInt(line[2], 10, 64); err == nil && ms > killed.UnixMilli() {
				fresh[line[1]] = true
			}
		}
		return len(fresh) == nodes
	}
	await(t, "the lines of all ranks below the agent come again", all)
	t.Logf("%d nodes: they came again after %v", nodes, time.Since(killed).Round(time.Millisecond))
	j.end(nodes, 1, lines, map[int]bool{0: true})
	require.Equal(t, 125, j.cmd.ProcessState.ExitCode(), j.err.String())
	_, why := j.commonResult(nodes - 1)
	require.Contains(t, why, "rank 0")
}

var restarts = flag.Int("restarts", 100, "restarts of ranks in each job of TestMuchTraffic")

func TestMuchTraffic(t *testing.T) { playTraffic(t, *restarts) }

func TestSpareOfACutNode(t *testing.T) { playSpare(t, true) }
