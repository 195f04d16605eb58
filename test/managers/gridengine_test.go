//go:build managers

package managers

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/skip"
	"ibrun/test/vcluster/cluster"
)

// TestGridEngine runs jobs in a real Grid Engine with four nodes, on which no sshd runs. ibrun must start two ranks on
// each node until all ranks are placed. After qdel all processes of the job must end.
func TestGridEngine(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("/usr/sbin/sge_qmaster"); err != nil {
		skip.Because(t, "Grid Engine is missing: make test-managers installs it")
	}
	c := cluster.Require(t, cluster.Config{Nodes: 4, NoSSH: true})
	ctx, cancel := context.WithTimeout(t.Context(), timeLimit)
	t.Cleanup(cancel)
	g, err := StartGridEngine(ctx, c)
	require.NoError(t, err)
	t.Cleanup(g.Close)
	all := newBed(ctx, t, c, g)

	for _, tree := range []string{"flat", "chain"} {
		t.Run(tree, func(t *testing.T) {
			b := all.forSubtest(t)
			rank := b.script("where", `echo "$IBRUN_RANK $(hostname)"`)
			job := b.script("job-"+tree, b.ibrun+" -v --tree "+tree+" "+rank)
			b.run("qsub", "-terse", "-cwd", "-pe", "mpi", "5", "-o", tree+".out", "-e", tree+".err", job)
			b.until("the job to end", func() bool { return b.run("qstat") == "" })
			require.Equal(t, "0 node0001\n1 node0001\n2 node0002\n3 node0002\n4 node0003", sortByRank(b.read(tree+".out")),
				b.read(tree+".err"))
			require.Contains(t, b.read(tree+".err"), "agents by qrsh: the manager's own starter")
		})
	}
	t.Run("qdel", func(t *testing.T) {
		b := all.forSubtest(t)
		counts := strings.ReplaceAll(signalScript, "SLURM_PROCID", "IBRUN_RANK")
		rank := b.script("rank", strings.Replace(counts, "SIGNAL", "USR1", 1))
		job := b.script("job-ends", fmt.Sprintf("exec %s %s", b.ibrun, rank))
		id := b.run("qsub", "-terse", "-cwd", "-pe", "mpi", "8", "-o", "ends.out", "-e", "ends.err", job)
		b.until("all ranks to be up", func() bool { return b.count("ends.out", "up") == 8 })
		b.run("qdel", id)
		b.waitForExit(b.ibrun, rank)
	})
}
