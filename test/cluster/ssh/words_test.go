//go:build cluster

package ssh

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOptionsOverNodes tests options that need nodes with their own names, files and devices: hosts for each program,
// and files and terminals on a node.
func TestOptionsOverNodes(t *testing.T) {
	parallel(t, working)
	c := shared(t, 4)
	lines := func(out string) string {
		all := strings.Split(strings.TrimSpace(out), "\n")
		slices.Sort(all)
		return strings.Join(all, "|")
	}
	const who = "echo $RANK $(hostname) $LOCAL_RANK"
	o := ibrun(t, c, "--tree", "chain", "-n", "2", "-host", "node0002,node0003", "sh", "-c", who, ":", "-n", "2",
		"-host", "node0001,node0002", "sh", "-c", who,
		":", "-n", "1", "-host", "node0003:2", "sh", "-c", who)
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, "0 node0002 0|1 node0003 0|2 node0001 0|3 node0002 1|4 node0003 1", lines(o.stdout))

	o = ibrun(t, c, "--hosts", "node[0001-0003]", "--pty", "sh", "-c",
		`[ ! -t 0 ] || [ ! -t 1 ] || [ ! -t 2 ] || echo terminal of $RANK at $(tty)`)
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stdout, "terminal of 0 at /dev/pts/")
	require.Equal(t, 1, strings.Count(o.stdout, "terminal"), o.stdout)
	o = ibrun(t, c, "--hosts", "node[0001-0003]", "--line-buffered", "sh", "-c", `[ -t 1 ] && [ ! -t 2 ] && echo $RANK`)
	require.Equal(t, "0|1|2", lines(o.stdout))

	o = ibrun(t, c, "--hosts", "node[0001-0003]", "--output-filename", "/tmp/out", "-prepend-pattern", "%h:",
		"hostname")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, "node0001:node0001|node0002:node0002|node0003:node0003", lines(o.stdout))
	kept, err := c.Exec(t.Context(), "node0003", "cat", "/tmp/out/1/rank.2/stdout").CombinedOutput()
	require.NoError(t, err, string(kept))
	require.Equal(t, "node0003\n", string(kept), "the file is on the node, and its lines have no prefix")

	ranks := filepath.Join(c.Shared(), "ranks")
	require.NoError(t, os.WriteFile(ranks,
		[]byte("rank 0=node0003 slot=0\nrank 1=node0001 slot=0\nrank 2=node0003 slot=*\n"), 0o644))
	o = ibrun(t, c, "--rankfile", ranks, "-l", "hostname")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, "[0] node0003|[1] node0001|[2] node0003", lines(o.stdout))
}
