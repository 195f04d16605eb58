package ssh

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
)

// overTCP is what this MPICH needs to end well over TCP, under its own launcher
// too.
const overTCP = "UCX_TCP_PUT_ENABLE=n"

// mpiProgram compiles the program of test/e2e with MPICH's compiler.
func mpiProgram(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	path := filepath.Join(c.Shared(), "mpi")
	out, err := exec.Command("mpicc.mpich", "-o", path, "../e2e/testdata/mpi.c").CombinedOutput()
	require.NoError(t, err, "packages mpich and libmpich-dev are needed: %s", out)
	return path
}

// Stock MPICH over real nodes and real ssh, one rank each; aborted or killed, all
// end at once.
func TestMPICHOverNodes(t *testing.T) {
	c := cluster.Require(t, cluster.Config{Nodes: 4})
	program := mpiProgram(t, c)
	// More than two nodes that talk are not judged: there this MPICH hangs in
	// MPI_Finalize most of the time, under mpiexec.hydra too.
	for _, what := range []string{"hello", "ring", "collectives", "names"} {
		o := ibrun(t, c, "--hosts", "node[0001-0002]", "--timeout", "60", "-x", overTCP, program, what)
		require.Equal(t, 0, o.code, "%s: %s", what, o.stderr)
		require.Equal(t, 2, strings.Count(o.stdout, "of 2: "+what+"\n"), o.stdout)
	}
	o := ibrun(t, c, "-n", "16", "--hosts", "node[0001-0004]", "--timeout", "60", "-x", overTCP, program, "abort", "7")
	require.Equal(t, 7, o.code, o.stderr)
	o = ibrun(t, c, "--hosts", "node[0001-0004]", "--timeout", "60", "-x", overTCP, "sh", "-c", `[ $RANK = 2 ] && { sleep 1; kill -9 $$; } & exec "$0" spin`, program)
	require.Equal(t, 137, o.code, o.stderr)
	require.Contains(t, o.stderr, "rank 2 on node0003 was killed by signal 9")
	eventually(t, 5*time.Second, "nothing is left", func() bool { return everywhere(t, c) == 0 })
}

// A PMI client without an MPI library: 1,024 ranks on 64 nodes.
func TestPMIOnSixtyFourNodes(t *testing.T) {
	c := cluster.Require(t, cluster.Config{Nodes: 64})
	client := example(t, c, "test/pmi")
	for _, tree := range []string{"auto", "kary:2"} {
		o := ibrun(t, c, "-n", "1024", "--hosts", "node[0001-0064]", "--tree", tree, client)
		require.Equal(t, 0, o.code, o.stderr)
		require.Equal(t, "1024 ranks exchanged\n", o.stdout)
		t.Logf("%s: %v", tree, o.took.Round(time.Millisecond))
	}
	eventually(t, 5*time.Second, "nothing is left", func() bool { return everywhere(t, c) == 0 })
}
