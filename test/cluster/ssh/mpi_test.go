//go:build cluster

package ssh

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Stock MPICH over real nodes and real ssh, one rank each and several. There is
// no MPI_Finalize: this MPICH hangs in it when more than two nodes talk, and at
// times between two, under mpiexec.hydra too (docs/mpi-programs.md).
func TestMPICHOverNodes(t *testing.T) {
	c := shared(t, 4)
	program := mpiProgram(t, c)
	for _, what := range []string{"hello", "ring", "collectives", "names"} {
		o := ibrun(t, c, "--hosts", "node[0001-0004]", "--timeout", "150", "-x", overTCP, "--bind-to", "none", program,
			what, "unfinished")
		require.Equal(t, 0, o.code, "%s: %s", what, o.stderr)
		require.Equal(t, 4, strings.Count(o.stdout, "of 4: "+what+"\n"), o.stdout)
		require.Contains(t, o.stderr, "aborted the job with code 0\n")
	}
	o := ibrun(t, c, "-n", "16", "--hosts", "node[0001-0004]", "--timeout", "150", "-x", overTCP, "--bind-to", "none",
		program, "abort", "7")
	require.Equal(t, 7, o.code, o.stderr)
	requireNothingLeft(t, c)
}
