//go:build cluster

package ssh

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/reaper"
	"ibrun/test/vcluster/cluster"
)

// TestExecOverNodes starts a daemon on each node of a job with ibrun ctl exec, in two trees. Each daemon must get the
// process ids of the ranks on its node, as the node numbers them. When the job ends, the daemons must be killed, and no
// process may be left.
func TestExecOverNodes(t *testing.T) {
	parallel(t, working)
	c := shared(t, 4)
	for _, tree := range []string{"chain", "kary:2"} {
		inDir := inOwnFolder(t)
		j := run(t, c, inDir("--tree", tree, "--hosts", "node[0001-0004]:2", "--bind-to", "none", "sleep", "1000")...)
		var last outcome
		await(t, "all ranks run", func() bool {
			last = run(t, c, inDir("ctl", "status")...).wait()
			return strings.Contains(last.stdout, "8 ranks: runs")
		})

		got := run(t, c, inDir("ctl", "exec", "--", "sh", "-c",
			`echo $(hostname) $IBRUN_DAEMON $IBRUN_RANKS $(cd /proc; cat ${IBRUN_PIDS%,*}/comm ${IBRUN_PIDS#*,}/comm)`,
		)...).wait()
		require.Equal(t, 0, got.code, got.stderr)
		lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
		slices.Sort(lines)
		require.Len(t, lines, 4, got.stdout)
		for i, line := range lines {
			require.Equal(t, fmt.Sprintf("node%04d %d %d,%d sleep sleep", i+1, i, 2*i, 2*i+1), line)
		}
		got = run(t, c, inDir("ctl", "exec", "--per-rank", "--hosts", "node[0002,0004]", "--", "sh", "-c",
			"exit $IBRUN_RANK")...).wait()
		require.Equal(t, 7, got.code)
		require.Equal(t, 4, strings.Count(got.stderr, "it exited"), got.stderr)
		require.Contains(t, got.stderr, "ibrun: node0004, beside rank 7: code 7: it exited\n")

		k := run(t, c, inDir("ctl", "exec", "--", "sh", "-c", "echo up; exec sleep 2000")...)
		await(t, "all daemons run", func() bool { return strings.Count(k.out.String(), "up") == 4 })
		require.Equal(t, 0, run(t, c, inDir("ctl", "end")...).wait().code)
		require.Equal(t, 143, j.wait().code, j.err.String())
		ended := k.wait()
		require.Equal(t, 137, ended.code, ended.stderr)
		require.Equal(t, 4, strings.Count(ended.stderr, "code 137: signal 9, killed"), ended.stderr)
	}
	requireNothingLeft(t, c)
}

// TestExecWhileRanksStartAgain starts daemons with ibrun ctl exec. It kills a rank, which starts again, and the agent
// of an inner node. The daemons of that node and of the nodes below it must be killed, and ibrun ctl exec must report
// their nodes as lost. All other daemons must run on. When the ranks have started again, new daemons must start on all
// nodes.
func TestExecWhileRanksStartAgain(t *testing.T) {
	parallel(t, working)
	c := shared(t, 4)
	inDir := inOwnFolder(t)
	j := run(t, c, inDir("--tree", "chain", "--hosts", "node[0001-0004]", "--on-failure", "restart", "sleep",
		"1000")...)
	all := func() bool {
		o := run(t, c, inDir("ctl", "exec", "--", "sh", "-c", "echo at $IBRUN_HOST with $IBRUN_PIDS.")...).wait()
		return o.code == 0 && strings.Count(o.stdout, "at ") == 4 && !strings.Contains(o.stdout, "with .")
	}
	await(t, "daemons run on all nodes", all)
	daemons := func() (on []string) {
		found, err := c.AllProcesses()
		require.NoError(t, err)
		for _, node := range c.Nodes() {
			if slices.ContainsFunc(found[node], func(p cluster.Proc) bool { return isCommand(p, "sleep", "2000") }) {
				on = append(on, node)
			}
		}
		return on
	}
	long := run(t, c, inDir("ctl", "exec", "--", "sleep", "2000")...)
	await(t, "four daemons run", func() bool { return len(daemons()) == 4 })

	killed := killOn(t, c, "node0003", func(p cluster.Proc) bool { return isCommand(p, "sleep", "1000") })
	await(t, "the rank starts again", func() bool {
		found, err := c.AllProcesses()
		require.NoError(t, err)
		return slices.ContainsFunc(found["node0003"], func(p cluster.Proc) bool {
			return isCommand(p, "sleep", "1000") && p.Pid != killed
		})
	})
	require.Len(t, daemons(), 4)

	killOn(t, c, "node0002", func(p cluster.Proc) bool { return len(p.Argv) > 1 && p.Argv[1] == reaper.Agent })
	await(t, "only the daemon above the lost agent is left", func() bool {
		return slices.Equal(daemons(), []string{"node0001"})
	})
	await(t, "daemons run on all nodes again", all)

	require.Equal(t, 0, run(t, c, inDir("ctl", "end")...).wait().code)
	require.Equal(t, 143, j.wait().code, j.err.String())
	ended := long.wait()
	require.Equal(t, 137, ended.code, ended.stderr)
	require.Contains(t, ended.stderr, "3 nodes with daemons lost")
	require.NotContains(t, j.err.String(), "no agent sends")
	requireNothingLeft(t, c)
}

func isCommand(p cluster.Proc, argv ...string) bool { return slices.Equal(p.Argv, argv) }

// killOn kills the first process on a node that the function is accepts. It returns the process id on the machine.
func killOn(t *testing.T, c *cluster.Cluster, node string, is func(cluster.Proc) bool) (pid int) {
	t.Helper()
	found, err := c.AllProcesses()
	require.NoError(t, err)
	i := slices.IndexFunc(found[node], is)
	require.GreaterOrEqual(t, i, 0, "%v", found[node])
	require.NoError(t, syscall.Kill(found[node][i].Pid, syscall.SIGKILL))
	return found[node][i].Pid
}
