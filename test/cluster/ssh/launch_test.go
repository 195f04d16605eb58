//go:build cluster

package ssh

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
)

// TestSessionsAndTrees starts jobs over ssh, rsh and the rsh stand-in, in trees of several shapes. In the last job the
// ranks exchange values by PMI.
func TestSessionsAndTrees(t *testing.T) {
	parallel(t, working)
	c := shared(t, 16)
	launchOn(t, c, "ssh", "greedy", 16, 2)
	launchOn(t, c, "ssh", "flat", 8, 2)
	launchOn(t, c, "ssh", "kary:8", 12, 1)
	launchOn(t, c, "rsh", "kary:2", 8, 2)
	launchOn(t, c, "stand-in", "two-level", 12, 1)
	exchangeOn(t, c, "auto", 16, 2)
	requireNothingLeft(t, c)
}

// TestShipping starts jobs on nodes without ibrun. The first job must send the binary, and later jobs must reuse the
// copy. A truncated copy must be replaced. If a folder is mounted with noexec, the binary must go to another folder.
func TestShipping(t *testing.T) {
	parallel(t, working)
	c := cluster.Require(t, cluster.Config{Nodes: 3})
	run := func(args ...string) outcome {
		return ibrun(t, c, append(args, "--hosts", "node[0001-0003]", "--tree", "chain", "sh", "-c",
			"ls -ldn /root/.cache/ibrun; ls -ln /root/.cache/ibrun | tail -n +2")...)
	}
	o := run()
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, 3, strings.Count(o.stdout, "drwx------"))
	require.Equal(t, 3, strings.Count(o.stdout, "-rwx------"))
	stamps := func() string {
		o := ibrun(t, c, "--hosts", "node[0001-0003]", "--no-preflight", "sh", "-c",
			"stat -c %i.%Z /root/.cache/ibrun/*")
		require.Equal(t, 0, o.code, o.stderr)
		words := strings.Fields(o.stdout)
		slices.Sort(words)
		return strings.Join(words, " ")
	}
	first := stamps()
	require.Len(t, strings.Fields(first), 9, "each of 3 nodes has the binary, its digest and the compressed binary")
	require.Equal(t, first, stamps())
	// A full disk or a crash can leave a truncated copy of the binary, which must be replaced. A truncated
	// compressed binary must be replaced too: the agent of node0002 sends it to node0003.
	await(t, "no agent runs the copy", func() bool { return everywhere(t, c) == 0 })
	on(t, c, "node0001", "sh", "-c", "for f in /root/.cache/ibrun/ibrun-????????????????; do : >$f; done")
	on(t, c, "node0002", "sh", "-c", "truncate -s 1000000 /root/.cache/ibrun/ibrun-????????????????.gz")
	on(t, c, "node0003", "sh", "-c",
		"for f in /root/.cache/ibrun/ibrun-????????????????; do truncate -s 1000000 $f; done")
	o = run("-v")
	require.Equal(t, 0, o.code, o.stderr)
	require.NotContains(t, o.stderr, "could not be reached")
	require.Len(t, strings.Fields(stamps()), 9)
	require.NotEqual(t, first, stamps())
	// If the home directory is mounted with noexec, another folder is used.
	on(t, c, "node0002", "mount", "-t", "tmpfs", "-o", "noexec", "none", "/root/.cache")
	o = ibrun(t, c, "--hosts", "node[0001-0003]", "--tree", "chain", "hostname")
	require.Equal(t, 0, o.code, o.stderr)
	require.ElementsMatch(t, c.Nodes(), strings.Fields(o.stdout))
	// If all folders are mounted with noexec, the error names them all.
	on(t, c, "node0003", "sh", "-c", "for d in /root /tmp /var/tmp /dev/shm; do mount -t tmpfs -o noexec none $d; done")
	o = ibrun(t, c, "--hosts", "node[0001-0003]", "--tree", "flat", "true")
	require.Equal(t, 125, o.code, o.stderr)
	require.Regexp(t, `node0003 .* ship .*no folder can hold and run the agent: `+
		`/root/\.cache/ibrun \(noexec\) /tmp/ibrun\.\w+ \(noexec\) `+
		`/var/tmp/ibrun\.\w+ \(noexec\) /dev/shm/ibrun\.\w+ \(noexec\)`, o.stderr)
	// A node whose copy was interrupted removes the partial file when its shell sees the end of input.
	for _, node := range c.Nodes() {
		const parts = "ls -d /tmp/ibrun.* /var/tmp/ibrun.* /dev/shm/ibrun.* /root/.cache/ibrun/.tmp*"
		await(t, "nothing is left on "+node, func() bool {
			out, _ := c.Exec(t.Context(), node, "sh", "-c", parts).Output()
			return len(out) == 0
		})
	}
}

// TestLoginShells makes bash, dash, tcsh and fish in turn the login shell of root on a node. ibrun must be able to
// start a job with each of them.
func TestLoginShells(t *testing.T) {
	parallel(t, working)
	c := cluster.Require(t, cluster.Config{Nodes: 1})
	passwd := filepath.Join(c.Etc(), "passwd")
	before, err := os.ReadFile(passwd)
	require.NoError(t, err)
	for _, shell := range []string{"/bin/bash", "/bin/dash", "/bin/tcsh", "/usr/bin/fish"} {
		if _, err := os.Stat(shell); err != nil {
			t.Errorf("%s is not on this machine: make test installs it", shell)
			continue
		}
		after := strings.Replace(string(before), "root:/bin/bash", "root:"+shell, 1)
		require.NoError(t, os.WriteFile(passwd, []byte(after), 0o644))
		o := ibrun(t, c, "--hosts", "node0001", "hostname")
		require.Equal(t, 0, o.code, "%s: %s", shell, o.stderr)
		require.Equal(t, "node0001\n", o.stdout)
	}
}
