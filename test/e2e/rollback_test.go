package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/product"
)

// With --on-failure restart-all a rank that fails takes all others with it, also one that has ended
// well and one that ignores SIGTERM, and all start again on their nodes.
func TestRestartAll(t *testing.T) {
	script := `echo $IBRUN_RESTART of $RANK
[ $IBRUN_RESTART = 1 ] && exit 0
case $RANK in 0) exit 0;; 1) sleep 0.5; kill -9 $$;; 2) trap "" TERM;; esac
setsid sleep 1000 & sleep 1000; sleep 1000`
	args := []string{"--launcher", "local", "-H", "a,b,c", "-n", "4", "--on-failure", "restart-all", "--kill-grace",
		"300ms", "--max-restarts"}
	o := ibrun(t, append(slices.Clone(args), "1", "sh", "-c", script)...)
	require.Equal(t, 0, o.code, o.stderr)
	again := "was killed by signal 9 (KILL); all ranks start again (restart 1)"
	require.Equal(t, 1, strings.Count(o.stderr, again), o.stderr)
	for rank := range 4 {
		for start := range 2 {
			line := fmt.Sprintf("%d of %d\n", start, rank)
			require.Equal(t, 1, strings.Count(string(o.stdout), line), string(o.stdout))
		}
	}
	o = ibrun(t, append(slices.Clone(args), "0", "sh", "-c", script)...)
	require.Equal(t, 137, o.code, o.stderr)
	require.Contains(t, o.stderr, "after 0 restarts, which is the most (--max-restarts)")
}

// A program asks for a rollback, several times: no message of an earlier start is delivered. One
// more than there may be ends the job.
func TestWorldRollback(t *testing.T) {
	program := filepath.Join(t.TempDir(), "restarter")
	require.NoError(t, product.Program(program, "ibrun/test/cluster/restarter"))
	for _, how := range []string{"restart", "restart-all"} {
		o := ibrun(t, "--launcher", "local", "-H", "a,b,c", "-n", "6", "--on-failure", how, program, "-rollbacks", "3")
		require.Equal(t, 0, o.code, o.stderr)
		require.Equal(t, 6, strings.Count(string(o.stdout), ": start 3\n"), string(o.stdout))
		require.Contains(t, o.stderr,
			"rank 2 on b asked for a rollback: start 2 is not good enough; all ranks start again (restart 3)")
	}
	o := ibrun(t, "-n", "2", "--on-failure", "restart", "--max-restarts", "1", program, "-rollbacks", "2")
	require.Equal(t, 1, o.code, o.stderr)
	require.Contains(t, o.stderr, "start 1 is not good enough; after 1 restart, which is the most (--max-restarts)")
	o = ibrun(t, "-n", "2", program, "-rollbacks", "2")
	require.Equal(t, 1, o.code, o.stderr)
	require.Contains(t, o.stderr, "no rank of this job is restarted: start it with --on-failure restart")
}

// In a job that does not repair its tree a spare takes the place of a node that is lost while ranks
// run, also below other agents. Ranks start there when nothing of the old ones runs; the others go
// on. An agent with others below it is not replaced.
func TestSpares(t *testing.T) {
	script := `echo $IBRUN_RESTART of $RANK on $IBRUN_NODE
[ $IBRUN_RESTART = 0 -a $RANK = $0 ] && { setsid sleep 1000 & sleep 0.3; kill -9 $PPID; sleep 1000; }
sleep 2`
	args := func(tree, how, rank string) []string {
		return []string{"--launcher", "local", "-H", "a,b,c,d", "--spares", "1", "--tree", tree, "-n", "3",
			"--on-agent-loss", "end", "--on-failure", how, "sh", "-c", script, rank}
	}
	for _, tree := range []string{"flat", "kary:1"} {
		o := ibrun(t, args(tree, "restart", "2")...)
		require.Equal(t, 0, o.code, "%s: %s", tree, o.stderr)
		require.Contains(t, o.stderr, "spare d takes the place of c")
		require.ElementsMatch(t, []string{"0 of 0 on 0", "0 of 1 on 1", "0 of 2 on 2", "1 of 2 on 2"},
			strings.Split(strings.TrimSpace(string(o.stdout)), "\n"), o.stderr)
	}
	o := ibrun(t, args("kary:1", "restart-all", "2")...)
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, 6, strings.Count(string(o.stdout), " of "), "%s%s", o.stdout, o.stderr)
	o = ibrun(t, args("kary:1", "restart", "1")...)
	require.Equal(t, 125, o.code, o.stderr)
	require.Contains(t, o.stderr, "no spare takes its place, since agents below it are lost with it")
}

// The tree of a job that restarts ranks is repaired: the ranks of a lost agent start again on its
// node, and no spare is taken. Nothing of the old start is left. (Here all agents are on one
// machine, and a reaper kills agents that its own has started; test/mender has inner agents.)
func TestRelaunch(t *testing.T) {
	script := `echo $IBRUN_RESTART of $RANK on $IBRUN_NODE
[ $IBRUN_RESTART = 0 -a $RANK = $0 ] && { setsid sleep 1000 & sleep 0.3; kill -9 $PPID; sleep 1000; }
sleep 2`
	for rank, tree := range map[string]string{"0": "flat", "2": "kary:1"} {
		o := ibrun(t, "--launcher", "local", "-H", "a,b,c,d", "--spares", "1", "--tree", tree, "-n", "3",
			"--on-failure", "restart", "sh", "-c", script, rank)
		require.Equal(t, 0, o.code, o.stderr)
		require.Contains(t, o.stderr, "its ranks start again (restart 1)")
		require.NotContains(t, o.stderr, "takes the place")
		require.ElementsMatch(t, []string{"0 of 0 on 0", "0 of 1 on 1", "0 of 2 on 2", "1 of " + rank + " on " + rank},
			strings.Split(strings.TrimSpace(string(o.stdout)), "\n"), o.stderr)
	}
}

// Ranks that use PMI cannot start again alone, also if they do so only after their node was lost:
// the job ends, and does not wait for ever.
func TestRelaunchOfPMI(t *testing.T) {
	script := `[ $IBRUN_RESTART = 0 -a $RANK = 1 ] && { sleep 0.3; kill -9 $PPID; sleep 1000; }
[ $RANK = 0 ] && exec sleep 1000
printf 'cmd=init pmi_version=1 pmi_subversion=1\n' >&3; read answer <&3
printf 'cmd=barrier_in\n' >&3; read answer <&3`
	o := ibrun(t, "--launcher", "local", "-H", "a,b", "-n", "2", "--on-failure", "restart", "sh", "-c", script)
	require.Equal(t, 1, o.code, o.stderr)
	require.Contains(t, o.stderr, "it uses PMI, so it cannot be restarted alone")
}
