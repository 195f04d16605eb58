//go:build cluster

package ssh

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNetlrtsOverNodes runs programs of Charm++'s layer netlrts on several nodes, with each of the three formats of the
// table of processes that Charm++ versions use. The table must contain the addresses by which nodes reach each other,
// even if a program guesses another address. A request of ibrun ctl ccs must reach the process that has the requested
// PE (processing element).
func TestNetlrtsOverNodes(t *testing.T) {
	parallel(t, working)
	c := shared(t, 4)
	client := example(t, c, "test/netlrts")
	on := []string{"--hosts", "node[0001-0004]:2", "--bind-to", "none", "--timeout", "150"}
	for gen, tree := range map[string]string{"65": "chain", "67": "kary:2", "69": "flat"} {
		o := ibrun(t, c, append(on, "--tree", tree, client, "-gen", gen, "early", "barrier", "print:hi", "barrier0",
			"ring", "0/table", "end:0")...)
		require.Equal(t, 0, o.code, "%s: %s", gen, o.stderr)
		for _, node := range c.Nodes() {
			require.Equal(t, 2, strings.Count(o.stdout, "@"+c.Address(node)), "%s: %s", node, o.stdout)
		}
		require.Equal(t, 8, strings.Count(o.stdout, "says hi\n"))
		require.Equal(t, 8, strings.Count(o.stdout, "early "))
	}
	o := ibrun(t, c, append(on, client, "3/end:5", "end:0")...)
	require.Equal(t, 5, o.code, o.stderr)
	o = ibrun(t, c, append(on, client, "6/kill", "barrier")...)
	require.Equal(t, 137, o.code, o.stderr)
	require.Contains(t, o.stderr, "rank 6 on node0004 was killed by signal 9 (KILL)")
	o = ibrun(t, c, append(on, "-m", "cyclic", client, "end:0")...)
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, 1, strings.Count(o.stderr, "hint: --map-by slot"), o.stderr)

	inDir := inOwnFolder(t)
	j := run(t, c, inDir(append(on, "--tree", "chain", client, "serve", "end:0")...)...)
	var got outcome
	await(t, "process 7 replies", func() bool {
		got = run(t, c, inDir("ctl", "ccs", "hello", "--pe", "7")...).wait()
		return got.code == 0
	})
	require.Equal(t, "process 7, PE 7, hello: ", got.stdout, got.stderr)
	for pe := range 8 {
		got = run(t, c, inDir("ctl", "ccs", "bye", "--pe", fmt.Sprint(pe))...).wait()
		require.Equal(t, fmt.Sprintf("process %d, PE %d, bye: ", pe, pe), got.stdout, got.stderr)
	}
	require.Equal(t, 0, j.wait().code, j.err.String())
	requireNothingLeft(t, c)
}
