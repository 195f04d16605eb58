//go:build cluster

package ssh

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSpawnOverNodes lets a rank on one node spawn a job on all hosts of its own job. If ibrun is then killed, no
// process of either job may be left on any node.
func TestSpawnOverNodes(t *testing.T) {
	parallel(t, working)
	c := shared(t, 4)
	client := example(t, c, "test/pmi")
	o := ibrun(t, c, "-n", "1", "--hosts", "node[0001-0004]", client, "-spawn", "8", "--", "sh", "-c",
		`hostname; exec "$0" -child`, client)
	require.Equal(t, 0, o.code, o.stderr)
	for _, node := range c.Nodes() {
		require.Equal(t, 2, strings.Count(o.stdout, node+"\n"), o.stdout)
	}
	require.Equal(t, 8, strings.Count(o.stdout, " of 8\n"), o.stdout)
	j := start(t, c, "-n", "1", "--hosts", "node[0001-0004]", "sh", "-c", `"$@"; exec sleep 1000`, "sh", client,
		"-spawn", "4", "--", "sleep", "1000")
	await(t, "reapers, agents and ranks of both jobs run", func() bool { return everywhere(t, c) == 3*5 })
	require.NoError(t, j.cmd.Process.Kill())
	j.wait()
	requireNothingLeft(t, c)
}
