//go:build cluster

package ssh

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
)

// On 16 nodes, one of 256 ranks does not come to the collective in which the others wait: control
// names it, with its node, and stacks are two groups. So with stock programs of MPICH and Open MPI,
// of fewer ranks unless the test is wide (make stuck).
func TestControlOverNodes(t *testing.T) {
	c := cluster.Require(t, cluster.Config{Nodes: 16})
	type stuck struct{ ranks, hosts, program, arg, late, others string }
	for name, job := range map[string]stuck{
		"package ibrun": {"256", "node[0001-0016]", example(t, c, "test/cluster/talker"), "", "17", "0-16,18-255"},
		"MPICH":         {"8", "node[0001-0004]:2", mpiProgram(t, c), "hello", "3", "0-2,4-7"},
		"Open MPI":      {"8", "node[0001-0004]:2", openMPIProgram(t, c), "hello", "3", "0-2,4-7"},
	} {
		if *wide {
			job = stuck{"256", "node[0001-0016]", job.program, job.arg, "17", "0-16,18-255"}
		}
		dir, err := os.MkdirTemp("", "ctl")
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		inDir := func(args ...string) []string {
			return append([]string{"env", "XDG_RUNTIME_DIR=" + dir, program}, args...)
		}
		j := run(t, c, inDir("-n", job.ranks, "--hosts", job.hosts, "--bind-to", "none", "sh", "-c",
			`[ $IBRUN_RANK = "$1" ] && exec sleep 1000; exec "$0" $2`, job.program, job.late, job.arg)...)
		until := func(verb, text string) {
			t.Helper()
			found, last := regexp.MustCompile(text), outcome{}
			for end := time.Now().Add(time.Minute); !found.MatchString(last.stdout) && time.Now().Before(end); {
				last = run(t, c, inDir("ctl", verb)...).wait()
			}
			require.Regexp(t, found, last.stdout, "%s: ctl %s: %s", name, verb, last.stderr)
		}
		node := map[string]string{"17": "node0002", "3": "node0002"}[job.late]
		until("ranks", `ranks have waited for [0-9.]+ s; missing: rank `+job.late+` on `+node+
			` \(process \d+, in nanosleep\)`)
		until("status", `ranks: in \w+ 1 for up to .* \(ranks `+job.others+`\)`)
		if !*wide || job.arg == "" { // else a debugger may not come to all 16 ranks of a node in time
			until("stacks", `(?m)^\d+ ranks: `+job.others+` \(in \w+ 1\)$`)
		}
		until("stacks", `(?m)^1 rank: `+job.late+` \(runs\)$`)
		began := time.Now()
		status := run(t, c, inDir("ctl", "status")...).wait()
		t.Logf("%s: status took %v\n%s", name, time.Since(began).Round(time.Millisecond), status.stdout)
		require.Equal(t, 0, run(t, c, inDir("ctl", "end")...).wait().code)
		require.Equal(t, 143, j.wait().code, j.err.String())
	}
	eventually(t, 5*time.Second, "nothing is left", func() bool { return everywhere(t, c) == 0 })
}
