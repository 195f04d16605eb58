//go:build mpi

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/fleet/suite"
	"ibrun/test/launch"
	"ibrun/test/vcluster/cluster"
	"ibrun/test/waitfor"
)

// Source files of the programs that run on the nodes. The tests of package test/mpi run the same programs under ibrun.
const (
	mpiSource    = "../mpi/testdata/mpi.c"        // a program of MPI, in C
	clientSource = "../mpi/testdata/pmixclient.c" // a client of PMIx, in C
	mpi4pyScript = "../mpi/testdata/peers.py"     // a script that uses MPI by mpi4py
)

// runOnFront runs a command on the front, the host of the cluster that is not a node. It waits for the command and
// returns the exit code and output.
func runOnFront(t *testing.T, c *cluster.Cluster, argv ...string) launch.Outcome {
	t.Helper()
	cmd := c.Command(t.Context(), argv...)
	// mpirun leaves a folder in TMPDIR. Sometimes an ssh that mpirun has started keeps the output open after its exit.
	cmd.Env = append(os.Environ(), "TMPDIR="+c.Shared())
	cmd.WaitDelay = waitfor.Deadline
	return launch.Finish(t, cmd)
}

// TestFleet runs programs of both suites on one cluster of two nodes.
func TestFleet(t *testing.T) {
	newer := suite.Newer(t)
	c := cluster.Require(t, cluster.Config{Nodes: 2, Share: newer.Folders()})
	t.Run("entered", func(t *testing.T) { testEntered(t, c, newer) })
	t.Run("Open MPI 5 under its own launcher", func(t *testing.T) { testOpenMPI5(t, c, newer) })
	t.Run("client of PMIx", func(t *testing.T) { testPMIxClient(t, c, suite.Own(), newer) })
}

// testEntered runs a shell by command fleet on a node. The shell must have the process ID, working directory, open
// files and environment of the process that executed fleet. It must see the host name, /dev/shm and /etc/hosts of the
// node. Its /usr must be that of Debian 13, and read-only.
func testEntered(t *testing.T, c *cluster.Cluster, newer suite.Suite) {
	const script = `. /etc/os-release; echo $VERSION_ID; echo $$; pwd; cat /proc/sys/kernel/hostname /etc/hostname
echo 5 >&5; ls /dev/shm; echo $OF_THE_CALLER; cat /etc/hosts; > /usr/new || echo refused`
	enter := newer.Command(t, c.Shared(), "sh", "-c", script)
	outside := `: > /dev/shm/of-the-node; cd ` + c.Shared() + `; export OF_THE_CALLER=kept; echo $$
exec 5>&1 "$@"`
	out, err := c.Exec(t.Context(), "node0001", append([]string{"sh", "-c", outside, "sh"}, enter...)...).Output()
	require.NoError(t, err, "%s", out)
	got := strings.Split(string(out), "\n")
	hosts, err := os.ReadFile(filepath.Join(c.Etc(), "hosts"))
	require.NoError(t, err)
	require.Equal(t, "13", got[1])
	require.Equal(t, got[0], got[2], "the command must have the process ID of fleet")
	rest := c.Shared() + "\nnode0001\nnode0001\n5\nof-the-node\nkept\n" + string(hosts) + "refused\n"
	require.Equal(t, rest, strings.Join(got[3:], "\n"))

	out, err = exec.Command(enter[0], c.Shared(), "true").CombinedOutput()
	require.ErrorContains(t, err, "exit status 125")
	require.Regexp(t, `^fleet: \S+ is no root file system: `, string(out))
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	require.NotContains(t, string(mounts), enter[1], "fleet must not change the mounts of this machine")
}

// testOpenMPI5 runs programs of Open MPI 5 under its own mpirun over ssh. They must succeed. So if one of them fails
// under ibrun, the cause is neither the cluster nor Open MPI. docs/mpi-programs.md lists programs that fail under
// mpirun, too.
func testOpenMPI5(t *testing.T, c *cluster.Cluster, newer suite.Suite) {
	own := newer.MPI(t, mpiSource, filepath.Join(c.Shared(), "mpi"))
	mpirun := append(newer.Launcher(t, c.Shared()), "--host", "node0001:1,node0002:1", "-n", "2")
	script, err := filepath.Abs(mpi4pyScript)
	require.NoError(t, err)
	for what, argv := range map[string][]string{
		"alltoall": {own, "alltoall"}, "sessions": {own, "sessions"}, "mpi4py": {"/usr/bin/python3", script},
	} {
		o := runOnFront(t, c, slices.Concat(mpirun, argv)...)
		require.Equal(t, 0, o.Code, "%s: %s%s", what, o.Stdout, o.Stderr)
		require.Equal(t, suite.MPIAnswers(2, what), launch.Lines(o.Stdout), "%s: %s", what, o.Stderr)
	}
}

// testPMIxClient runs pmixclient.c under mpirun, whose PMIx server is that of libpmix. The program must print the same
// lines as package test/mpi/nodes requires under ibrun, except for the universe size.
func testPMIxClient(t *testing.T, c *cluster.Cluster, suites ...suite.Suite) {
	for _, s := range suites {
		client := s.PMIx(t, clientSource, filepath.Join(c.Shared(), s.Name+"-pmixclient"))
		o := runOnFront(t, c, append(s.Launcher(t, c.Shared()), "--host", "node0001:4,node0002:4",
			"-n", "7", client)...)
		require.Equal(t, 0, o.Code, "%s: %s%s", s.Name, o.Stdout, o.Stderr)
		require.Equal(t, suite.PMIxAnswers(7, 4), withoutSlots(launch.Lines(o.Stdout)), "%s: %s", s.Name, o.Stderr)
	}
}

// withoutSlots returns the lines of pmixclient.c without those that have the universe size. The universe size is the
// number of ranks under ibrun, and the number of slots or nodes under mpirun.
func withoutSlots(all []string) []string {
	return slices.DeleteFunc(all, func(line string) bool { return strings.Contains(line, ": univ-size = ") })
}
