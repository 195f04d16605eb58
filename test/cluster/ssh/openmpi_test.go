//go:build cluster

package ssh

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
)

// Stock Open MPI over real nodes and real ssh, in the combinations that mpirun
// itself ends ten times of ten there: two and four nodes, one and two ranks each.
// Killed, all end at once, and no node keeps a file.
func TestOpenMPIOverNodes(t *testing.T) {
	c := cluster.Require(t, cluster.Config{Nodes: 4})
	program := openMPIProgram(t, c)
	for _, job := range []struct{ ranks, hosts, what string }{
		{"2", "node[0001-0002]", "hello"}, {"2", "node[0001-0002]", "ring"}, {"4", "node[0001-0002]:2", "collectives"},
		{"4", "node[0001-0004]", "ring"}, {"8", "node[0001-0004]:2", "collectives"},
	} {
		o := ibrun(t, c, "-n", job.ranks, "--hosts", job.hosts, "--timeout", "150", program, job.what)
		require.Equal(t, 0, o.code, "%v: %s", job, o.stderr)
		require.Empty(t, o.stderr)
		require.Equal(t, job.ranks, strconv.Itoa(strings.Count(o.stdout, "of "+job.ranks+": "+job.what+"\n")), o.stdout)
	}
	o := ibrun(t, c, "-n", "8", "--hosts", "node[0001-0004]:2", "--timeout", "150", program, "abort", "7")
	require.Equal(t, 7, o.code, o.stderr)
	o = ibrun(t, c, "-n", "8", "--hosts", "node[0001-0004]:2", "--timeout", "150", "sh", "-c",
		`[ $RANK = 2 ] && { sleep 1; kill -9 $$; } & exec "$0" spin`, program)
	require.Equal(t, 137, o.code, o.stderr)
	require.Contains(t, o.stderr, "rank 2 on node0002 was killed by signal 9")
	o = ibrun(t, c, "--keep-going", "-n", "8", "--hosts", "node[0001-0004]:2", "--timeout", "150", program, "spin",
		"fall")
	require.Equal(t, 137, o.code, o.stderr)
	require.Contains(t, o.stderr,
		"rank 1 on node0001 was killed by signal 9 (KILL) before MPI_Finalize: the job ends despite --keep-going")
	requireNothingLeft(t, c)
	for _, node := range []string{"node0001", "node0002", "node0003", "node0004"} {
		out, err := c.Exec(t.Context(), node, "sh", "-c",
			"ls -A /dev/shm; find /tmp -maxdepth 2 -path '/tmp/ompi.*/*'").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Empty(t, string(out), node)
	}
}

// Open MPI over UCX, the layer of InfiniBand clusters: in MPI_Finalize a rank that waits
// in the PMI barrier must still answer those that close their endpoints. mpirun ends it
// 24 times of 24; without progress in libpmi 20 of 24 hung.
func TestOpenMPIOverUCX(t *testing.T) {
	c := shared(t, 4)
	program := openMPIProgram(t, c)
	for round := range 2 {
		what := []string{"ring", "collectives"}[round%2]
		o := ibrun(t, c, "-n", "4", "--hosts", "node[0001-0002]:2", "--timeout", "150", "OMPI_MCA_pml=ucx",
			"OMPI_MCA_pml_ucx_tls=any", "OMPI_MCA_pml_ucx_devices=any", program, what)
		require.Equal(t, 0, o.code, "round %d: %s", round, o.stderr)
		require.Equal(t, 4, strings.Count(o.stdout, "of 4: "+what+"\n"), o.stdout)
	}
}
