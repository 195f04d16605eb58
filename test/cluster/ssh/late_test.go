//go:build cluster

package ssh

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
)

// parseHosts parses the output of a job whose ranks have each printed a line "[RANK]: HOST SIZE". It returns the host
// of each rank and the size of the job. It fails the test if a rank is missing or has printed two lines.
func parseHosts(t *testing.T, stdout string) (hosts []string, size int) {
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	hosts = make([]string, len(lines))
	for _, l := range lines {
		words := strings.Fields(l)
		require.Len(t, words, 3, l)
		rank, err := strconv.Atoi(strings.Trim(words[0], "[]:"))
		require.NoError(t, err, l)
		require.Less(t, rank, len(hosts), "want ranks without gaps: %s", stdout)
		require.Empty(t, hosts[rank], "rank %d has printed two lines", rank)
		hosts[rank] = words[1]
		size, err = strconv.Atoi(words[2])
		require.NoError(t, err)
		require.Len(t, lines, size, "each rank must know the size of the job")
	}
	return hosts, size
}

// TestLateBinding launches jobs on nodes that are dead, slow, or cannot reach each other. Ranks must run on the nodes
// that answer.
func TestLateBinding(t *testing.T) {
	parallel(t, waiting)
	c := own(t, cluster.Config{Nodes: 8})
	tell := []string{"-l", "sh", "-c", "echo $(hostname) $PMI_SIZE"}
	run := func(args ...string) outcome { return ibrun(t, c, append(append(args, "-ppn", "2"), tell...)...) }
	trees := [][]string{{"--tree", "greedy", "--batch", "1"}, {"--tree", "kary:2"}}

	// No node can open sessions to others, so the front must start all agents.
	for _, node := range c.Nodes() {
		on(t, c, node, "sh", "-c",
			"mkdir -p /root/.ssh; printf 'Host *\nIdentityFile /dev/null\nIdentitiesOnly yes\n' > /root/.ssh/config")
	}
	o := run("--tree", "kary:2", "--hosts", "node[0001-0008]")
	require.Equal(t, 0, o.code, o.stderr)
	hosts, _ := parseHosts(t, o.stdout)
	for i, h := range hosts {
		require.Equal(t, fmt.Sprintf("node%04d", i/2+1), h)
	}
	require.Equal(t, 1, strings.Count(o.stderr, "could not be reached from"), "want one message: %s", o.stderr)
	for _, node := range c.Nodes() {
		on(t, c, node, "rm", "/root/.ssh/config")
	}

	// A slow node must delay only its own ranks: its login shell waits until the ranks of all other nodes have run.
	ran := filepath.Join(c.Shared(), "ran.")
	on(t, c, "node0002", "sh", "-c",
		"echo 'until [ $(ls "+ran+"* | wc -l) = 7 ]; do sleep 0.1; done 2>/dev/null' > /root/.bashrc")
	o = ibrun(t, c, "--tree", "greedy", "--batch", "2", "--hosts", "node[0001-0008]", "sh", "-c", ": >"+ran+"$(hostname)")
	require.Equal(t, 0, o.code, o.stderr)
	on(t, c, "node0002", "rm", "/root/.bashrc")

	// The ranks of a dead node move to a spare, or are left out.
	require.NoError(t, c.Kill("node0003"))
	for _, tree := range trees {
		args := append(tree, "--launch-timeout", "10")
		o := run(append(args, "--hosts", "node[0001-0008]", "--spares", "1")...)
		require.Equal(t, 0, o.code, o.stderr)
		require.Contains(t, o.stderr, "spare node0008 takes its place")
		hosts, size := parseHosts(t, o.stdout)
		require.Equal(t, 14, size)
		for i, h := range hosts {
			slot := i/2 + 1
			if slot == 3 {
				slot = 8
			}
			require.Equal(t, fmt.Sprintf("node%04d", slot), h)
		}

		o = run(append(args, "--hosts", "node[0001-0008]", "--min-nodes", "5")...)
		require.Equal(t, 0, o.code, o.stderr)
		require.Contains(t, o.stderr, "goes on with 7 of 8 nodes")
		hosts, size = parseHosts(t, o.stdout)
		require.Equal(t, 14, size)
		for i, h := range hosts {
			slot := i/2 + 1
			if slot >= 3 {
				slot++
			}
			require.Equal(t, fmt.Sprintf("node%04d", slot), h)
		}

		o = run(append(args, "--hosts", "node[0001-0007]", "--min-nodes", "7")...)
		require.Equal(t, 125, o.code, o.stderr)
		require.Empty(t, o.stdout, "ranks have started on fewer nodes than --min-nodes")
		require.Contains(t, o.stderr, "node0003")
	}
	// A spare must also replace a node that is cut off. Such a node does not even refuse connections.
	require.NoError(t, c.Cut("node0003"))
	o = run("--tree", "greedy", "--batch", "2", "--launch-timeout", "10", "--hosts", "node[0001-0008]", "--spares", "2",
		"--min-nodes", "6")
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stderr, "spare node0007 takes its place")
	requireNothingLeft(t, c)
}
