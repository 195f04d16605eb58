package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/cmd/ibrun/internal/plan"
	"ibrun/internal/job"
	"ibrun/topo/capture"
)

// planFor is the plan of a command line on a made-up machine.
func planFor(t *testing.T, line ...string) *plan.Plan {
	t.Helper()
	r, err := cli.Parse(line, cli.ReadTextFile)
	require.NoError(t, err)
	p, err := plan.New(r, plan.Surroundings{Host: "login1.cluster", User: "u", Cwd: "/", Read: cli.ReadTextFile,
		Machine: capture.Machine}, plan.Identity{})
	require.NoError(t, err)
	return p
}

func TestDescribeAllocation(t *testing.T) {
	var b strings.Builder
	DescribeAllocation(&b, planFor(t, "-n", "1", "-H", "n[1-3]:4,x", "--spares", "1", "true"))
	require.Equal(t, "alloc    3 nodes, 12 slots\n         n[1-3]                       4 each\nspares   x\n",
		b.String())
}

func TestDescribe(t *testing.T) {
	p := planFor(t, "-n", "4", "-H", "a:2,b:2", "--tree", "greedy:1ms,2ms", "-J", "name", "true", "a b")
	var b strings.Builder
	Describe(&b, p)
	require.Equal(t, `job      name: 4 ranks on 2 nodes
program  0: ranks 0-3: true 'a b'
         in /, 0 variables forwarded
nodes    a                            2 each, ranks 0-1
nodes    b                            2 each, ranks 2-3
tree     greedy: 2 sessions at the root, 1 level deep, over ssh
predict  all agents up after 3ms (SEQ 1ms, REM 2ms, as --tree says)
`, b.String())
}

func TestLinePrefix(t *testing.T) {
	p := planFor(t, "-n", "4", "-H", "a:2,b:2", "-m", "cyclic", "-prepend-pattern", "x", "true")
	host := func(node job.NodeIndex, planned string) string {
		if node == 1 {
			return "spare"
		}
		return planned
	}
	require.Equal(t, "[2/0/0/a] 50% ", LinePrefix(p, "[%r/%g/%p/%h] 50%% ", 2, host))
	require.Equal(t, "03|spare|1", LinePrefix(p, "%2r|%h|%p", 3, host))
	require.Regexp(t, `^\d{10,}$`, LinePrefix(p, "%t", 0, host))
}
