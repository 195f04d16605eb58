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

// These programs are also used by tests of other packages.
const (
	mpi        = "../mpi/testdata/mpi.c"
	pmixClient = "../mpi/testdata/pmixclient.c"
	mpi4py     = "../mpi/testdata/peers.py"
)

// output runs a command on the front.
func output(t *testing.T, c *cluster.Cluster, argv ...string) launch.Outcome {
	t.Helper()
	cmd := c.Command(t.Context(), argv...)
	// mpirun leaves a folder behind, and sometimes an ssh that still has its output open.
	cmd.Env = append(os.Environ(), "TMPDIR="+c.Shared())
	cmd.WaitDelay = waitfor.Deadline
	return launch.Finish(t, cmd)
}

// TestFleet runs programs of both suites on one cluster of two nodes.
func TestFleet(t *testing.T) {
	newer := suite.Newer(t)
	c := cluster.Require(t, cluster.Config{Nodes: 2, Share: newer.Folders()})
	t.Run("entered", func(t *testing.T) { entered(t, c, newer) })
	t.Run("Open MPI 5 under its own launcher", func(t *testing.T) { underItsOwnLauncher(t, c, newer) })
	t.Run("client of PMIx", func(t *testing.T) { clientOfPMIx(t, c, suite.Own(), newer) })
}

// entered requires that a command under fleet is the caller's process on the caller's host, and has the programs
// of the other suite, which it cannot change.
func entered(t *testing.T, c *cluster.Cluster, newer suite.Suite) {
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
	require.Equal(t, got[0], got[2], "the same process")
	rest := c.Shared() + "\nnode0001\nnode0001\n5\nof-the-node\nkept\n" + string(hosts) + "refused\n"
	require.Equal(t, rest, strings.Join(got[3:], "\n"))

	out, err = exec.Command(enter[0], c.Shared(), "true").CombinedOutput()
	require.ErrorContains(t, err, "exit status 125")
	require.Regexp(t, `^fleet: \S+ is no root file system: `, string(out))
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	require.NotContains(t, string(mounts), enter[1], "mounts end with the command")
}

// underItsOwnLauncher runs programs of Open MPI 5 under its own mpirun over ssh. They must end well, so that a
// failure under ibrun is not one of the cluster or of Open MPI. docs/mpi-programs.md lists programs that fail
// under mpirun.
func underItsOwnLauncher(t *testing.T, c *cluster.Cluster, newer suite.Suite) {
	own := newer.MPI(t, mpi, filepath.Join(c.Shared(), "mpi"))
	mpirun := append(newer.Launcher(t, c.Shared()), "--host", "node0001:1,node0002:1", "-n", "2")
	script, err := filepath.Abs(mpi4py)
	require.NoError(t, err)
	for what, argv := range map[string][]string{
		"alltoall": {own, "alltoall"}, "sessions": {own, "sessions"}, "mpi4py": {"/usr/bin/python3", script},
	} {
		o := output(t, c, slices.Concat(mpirun, argv)...)
		require.Equal(t, 0, o.Code, "%s: %s%s", what, o.Stdout, o.Stderr)
		require.Equal(t, suite.MPIAnswers(2, what), launch.Lines(o.Stdout), "%s: %s", what, o.Stderr)
	}
}

// clientOfPMIx runs the client of PMIx under mpirun, whose server is libpmix. It must print the lines that
// test/mpi/nodes requires under ibrun.
func clientOfPMIx(t *testing.T, c *cluster.Cluster, suites ...suite.Suite) {
	for _, s := range suites {
		client := s.PMIx(t, pmixClient, filepath.Join(c.Shared(), s.Name+"-pmixclient"))
		o := output(t, c, append(s.Launcher(t, c.Shared()), "--host", "node0001:4,node0002:4",
			"-n", "7", client)...)
		require.Equal(t, 0, o.Code, "%s: %s%s", s.Name, o.Stdout, o.Stderr)
		require.Equal(t, suite.PMIxAnswers(7, 4), withoutSlots(launch.Lines(o.Stdout)), "%s: %s", s.Name, o.Stderr)
	}
}

// withoutSlots removes the lines with the size of the universe, for which mpirun counts slots or nodes.
func withoutSlots(all []string) []string {
	return slices.DeleteFunc(all, func(line string) bool { return strings.Contains(line, ": univ-size = ") })
}
