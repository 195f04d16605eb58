//go:build cluster || soak

package ssh

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
)

// controlOverNodes runs jobs in which one rank sleeps while all other ranks wait in a collective. ibrun ctl ranks must
// name the missing rank and its node. ibrun ctl stacks must show the sleeping rank and the waiting ranks as two groups.
func controlOverNodes(t *testing.T, c *cluster.Cluster, nodes, ppn int, programs map[string]string) {
	late, node := ppn+1, "node0002"
	others := fmt.Sprintf("0-%d,%d-%d", late-1, late+1, nodes*ppn-1)
	for name, program := range programs {
		arg := "hello"
		if name == "package ibrun" {
			arg = ""
		}
		inDir := inOwnFolder(t)
		j := run(t, c, inDir("-ppn", fmt.Sprint(ppn), "--hosts", fmt.Sprintf("node[0001-%04d]", nodes), "--bind-to",
			"none", "sh", "-c", `[ $IBRUN_RANK = "$1" ] && exec sleep 1000; exec "$0" $2`, program, fmt.Sprint(late),
			arg)...)
		until := func(verb, text string) {
			t.Helper()
			found, last := regexp.MustCompile(text), outcome{}
			await(t, name+": ctl "+verb+" shows "+text, func() bool {
				last = run(t, c, inDir("ctl", verb)...).wait()
				return found.MatchString(last.stdout)
			})
		}
		until("ranks", fmt.Sprintf(`ranks have waited for [0-9.]+ s; missing: rank %d on %s \(process \d+, in nanosleep\)`,
			late, node))
		until("status", `ranks: in \w+ 1 for up to .* \(ranks `+others+`\)`)
		if ppn < 16 || arg == "" { // With 16 busy ranks on a node the debugger may be too slow for some.
			until("stacks", `(?m)^\d+ ranks: `+others+` \(in \w+ 1\)$`)
		}
		until("stacks", fmt.Sprintf(`(?m)^1 rank: %d \(runs\)$`, late))
		require.Equal(t, 0, run(t, c, inDir("ctl", "end")...).wait().code)
		require.Equal(t, 143, j.wait().code, j.err.String())
	}
	requireNothingLeft(t, c)
}

// resizeOverNodes grows a running stencil computation from nodes to nodes+by nodes, and shrinks it back. Its result
// must equal that of a run whose size does not change. No process may be left on the nodes that have left the job.
func resizeOverNodes(t *testing.T, nodes, by, ppn int) {
	c := shared(t, nodes+by)
	heat := example(t, c, "examples/resize")
	inDir := inOwnFolder(t)
	start := func(changes string) *job {
		return run(t, c, inDir("--hosts", fmt.Sprintf("node[0001-%04d]", nodes), "-ppn", fmt.Sprint(ppn), "--bind-to",
			"none", heat, "-rows", "192", "-steps", "400", "-changes", changes)...)
	}
	total := regexp.MustCompile(fmt.Sprintf(`sum ([0-9a-f]{16}); %d ranks at the end, resized (\d) times`, nodes*ppn))
	quiet := start("0").wait()
	require.Equal(t, 0, quiet.code, quiet.stderr)
	want := total.FindStringSubmatch(quiet.stdout)
	require.NotEmpty(t, want, quiet.stdout)

	j := start("2")
	ask := func(words ...string) {
		var o outcome
		await(t, "the program has called Resize", func() bool {
			o = run(t, c, inDir(append([]string{"ctl"}, words...)...)...).wait()
			return !regexp.MustCompile("no job of yours|not called Resize|being launched").MatchString(o.stderr)
		})
		require.Equal(t, 0, o.code, o.stderr)
	}
	ask("grow", fmt.Sprintf("node[%04d-%04d]", nodes+1, nodes+by))
	ask("shrink", fmt.Sprint(by))
	await(t, "nothing is left on nodes that have left", func() bool {
		return !slices.ContainsFunc(c.Nodes()[nodes:], func(node string) bool { return len(ours(t, c, node)) > 0 })
	})
	o := j.wait()
	require.Equal(t, 0, o.code, o.stderr)
	got := total.FindStringSubmatch(o.stdout)
	require.Equal(t, []string{want[1], "2"}, got[1:], o.stdout)
	requireNothingLeft(t, c)
}

// launchOn starts ranks over a kind of session in a shape of tree, and requires that each node has its ranks.
func launchOn(t *testing.T, c *cluster.Cluster, session, tree string, nodes, ppn int) {
	t.Helper()
	sessions := map[string][]string{
		"ssh": nil, "rsh": {"--launcher", "rsh"}, "stand-in": {"--launcher-exec", c.VRSH()},
	}
	o := ibrun(t, c, append(sessions[session], "-ppn", fmt.Sprint(ppn), "--hosts", fmt.Sprintf("node[0001-%04d]", nodes),
		"--launch-timeout", "60", "--tree", tree, "hostname")...)
	require.Equal(t, 0, o.code, "%s %s: %s", session, tree, o.stderr)
	require.Empty(t, o.stderr)
	require.ElementsMatch(t, slices.Repeat(c.Nodes()[:nodes], ppn), strings.Fields(o.stdout))
}

// exchangeOn lets ranks without an MPI library exchange values by PMI.
func exchangeOn(t *testing.T, c *cluster.Cluster, tree string, nodes, ppn int) {
	t.Helper()
	o := ibrun(t, c, "-ppn", fmt.Sprint(ppn), "--hosts", fmt.Sprintf("node[0001-%04d]", nodes), "--launch-timeout", "60",
		"--tree", tree, example(t, c, "test/pmi"))
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, fmt.Sprintf("%d ranks exchanged\n", nodes*ppn), o.stdout)
}

// playTraffic lets ranks kill themselves while all ranks send, over udp and over tcp. The killed ranks start again. A
// message that an earlier start of a rank has sent, or that was sent to an earlier start, must not be delivered.
func playTraffic(t *testing.T, restarts int) {
	c := shared(t, 4)
	program := example(t, c, "test/cluster/restarter")
	for seed, fabric := range []string{"udp", "tcp"} {
		o := ibrun(t, c, "-n", "8", "--hosts", "node[0001-0004]:2", "--fabric", fabric, "--on-failure", "restart",
			"--max-restarts", "1000", program, "-restarts", fmt.Sprint(restarts), "-seed", fmt.Sprint(seed+1))
		require.Equal(t, 0, o.code, "%s\n%s", o.stdout, o.stderr)
		require.Equal(t, restarts, strings.Count(o.stderr, "killed by signal 9 (KILL); it starts again"), o.stderr)
		require.Equal(t, 8, strings.Count(o.stdout, "none stale"), o.stdout)
		require.Contains(t, o.stdout, fmt.Sprintf("%d restarts under traffic: ", restarts))
		t.Logf("%s: %s", fabric, o.stdout)
	}
}

// playSpare starts a job with one rank per node and a spare node. The agent of one node is killed or, if cut is true,
// the node is cut off. The rank of that node must start again on the spare.
func playSpare(t *testing.T, cut bool) {
	c := own(t, cluster.Config{Nodes: 4})
	script := `echo $IBRUN_RESTART of $RANK
[ $IBRUN_RESTART$RANK$0 = 02kill ] && { sleep 0.5; kill -9 $PPID; }
[ $IBRUN_RESTART = 1 ] || exec sleep 1000`
	how, loss := "kill", "end"
	if cut {
		how, loss = "cut", "repair"
	}
	j := start(t, c, "--hosts", "node[0001-0004]", "--spares", "1", "-n", "3", "--on-failure", "restart",
		"--on-agent-loss", loss, "sh", "-c", script, how)
	await(t, "all ranks run", func() bool { return strings.Count(j.out.String(), "0 of ") == 3 })
	if cut {
		require.NoError(t, c.Cut("node0003"))
	}
	await(t, "rank 2 runs on the spare", func() bool { return strings.Contains(j.out.String(), "1 of 2\n") })
	require.NoError(t, j.cmd.Process.Kill())
	require.Contains(t, j.wait().stderr, "spare node0004 takes the place of node0003")
}
