//go:build cluster

package ssh

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
)

// 64 nodes over each kind of session and tree; 1,024 ranks in the tree that is planned.
func TestSixtyFourNodes(t *testing.T) {
	c := cluster.Require(t, cluster.Config{Nodes: 64, RSH: true})
	sessions := map[string][]string{
		"ssh": nil, "rsh": {"--launcher", "rsh"}, "stand-in": {"--launcher-exec", c.VRSH()},
	}
	for _, name := range []string{"ssh", "rsh", "stand-in"} {
		for _, tree := range []string{"flat", "kary:2", "kary:8", "two-level", "greedy"} {
			perNode := 2
			if tree == "greedy" {
				perNode = 16
			}
			o := ibrun(t, c, append(sessions[name], "-n", strconv.Itoa(64*perNode), "--hosts", "node[0001-0064]",
				"--tree", tree, "hostname")...)
			require.Equal(t, 0, o.code, "%s %s: %s", name, tree, o.stderr)
			require.Empty(t, o.stderr)
			seen := map[string]int{}
			for _, h := range strings.Fields(o.stdout) {
				seen[h]++
			}
			require.Len(t, seen, 64)
			for h, n := range seen {
				require.Equal(t, perNode, n, h)
			}
			t.Logf("%s, %s: %v", name, tree, o.took.Round(time.Millisecond))
		}
	}
	eventually(t, 5*time.Second, "nothing is left", func() bool { return everywhere(t, c) == 0 })
}

// Nothing is installed: the binary is sent once, and found the next time.
func TestShipping(t *testing.T) {
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
	require.Len(t, strings.Fields(first), 6, "on each node a binary and its digest")
	require.Equal(t, first, stamps())
	on := func(node, command string) {
		out, err := c.Exec(t.Context(), node, "sh", "-c", command).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	// What a full disk or a crash made of it is mended.
	eventually(t, 10*time.Second, "no agent runs it", func() bool { return everywhere(t, c) == 0 })
	on("node0001", "for f in /root/.cache/ibrun/ibrun-????????????????; do : >$f; done")
	on("node0002", "for f in /root/.cache/ibrun/ibrun-????????????????; do truncate -s 1000000 $f; done")
	require.Len(t, strings.Fields(stamps()), 6)
	require.NotEqual(t, first, stamps())
	// A home from which nothing may be run: another folder is found.
	on("node0002", "mount -t tmpfs -o noexec none /root/.cache")
	o = ibrun(t, c, "--hosts", "node[0001-0003]", "--tree", "chain", "hostname")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, "node0001\nnode0002\nnode0003\n", sortedLines(o.stdout))
	// Nowhere at all: said by name.
	on("node0003", "for d in /root /tmp /var/tmp /dev/shm; do mount -t tmpfs -o noexec none $d; done")
	o = ibrun(t, c, "--hosts", "node[0001-0003]", "--tree", "flat", "true")
	require.Equal(t, 125, o.code, o.stderr)
	require.Regexp(t, `node0003 .* ship .*no folder can hold and run the agent: `+
		`/root/\.cache/ibrun \(noexec\) /tmp/ibrun\.\w+ \(noexec\) `+
		`/var/tmp/ibrun\.\w+ \(noexec\) /dev/shm/ibrun\.\w+ \(noexec\)`, o.stderr)
	// A node whose copy was interrupted removes the part of it when its shell sees the end.
	for _, node := range c.Nodes() {
		const parts = "ls -d /tmp/ibrun.* /var/tmp/ibrun.* /dev/shm/ibrun.* /root/.cache/ibrun/.tmp*"
		eventually(t, 30*time.Second, "nothing is left on "+node, func() bool {
			out, _ := c.Exec(t.Context(), node, "sh", "-c", parts).Output()
			return len(out) == 0
		})
	}
}

func sortedLines(s string) string {
	lines := strings.Fields(s)
	for i := range lines {
		for k := i; k > 0 && lines[k] < lines[k-1]; k-- {
			lines[k], lines[k-1] = lines[k-1], lines[k]
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// A launch that fails is a table: host, phase, cause; and soon.
func TestLaunchFailures(t *testing.T) {
	c := cluster.Require(t, cluster.Config{Nodes: 4})
	rc := func(node, text string) {
		out, err := c.Exec(t.Context(), node, "sh", "-c", "cat > /root/.bashrc <<'E'\n"+text+"\nE").CombinedOutput()
		require.NoError(t, err, string(out))
	}
	for _, f := range []struct {
		name    string
		prepare func()
		args    []string
		most    time.Duration
		says    []string
	}{
		{"unknown host", func() {}, []string{"--hosts", "node0001,nowhere"}, 5 * time.Second, []string{"nowhere",
			"resolve", "getent hosts nowhere"}},
		{"refused", func() {}, []string{"--hosts", "node0001,node0002", "--ssh-args", "-p 9"}, 3 * time.Second,
			[]string{"node0001", "node0002", "connect", "refused"}},
		{"no key", func() {}, []string{"--hosts", "node0001", "--ssh-args",
			"-o IdentityFile=/dev/null -o IdentitiesOnly=yes"}, 5 * time.Second, []string{"authenticate",
			"permission denied", "/dev/null is no private key"}},
		{"unknown host key", func() {}, []string{"--hosts", "node0001", "--ssh-args",
			"-o UserKnownHostsFile=/dev/null -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes"},
			3 * time.Second, []string{"authenticate", "host key verification failed", "ssh-ed25519 SHA256:"}},
		{"start-up file that exits", func() { rc("node0002", "echo bye >&2; exit 3") }, []string{"--hosts",
			"node0001,node0002"}, 5 * time.Second, []string{"node0002", "start", "bye"}},
		{"start-up file that sleeps", func() { rc("node0002", "echo dozing; sleep 999") }, []string{"--hosts",
			"node0002", "--launch-timeout", "3"}, 8 * time.Second, []string{"node0002", "start", "no answer",
			"dozing"}},
		{"absent launcher", func() {}, []string{"--hosts", "node0001", "--launcher-exec", "no-such-shell"},
			2 * time.Second, []string{"no-such-shell"}},
		{"no agent there", func() {}, []string{"--hosts", "node0003", "--agent-path", "/nonexistent/ibrun"},
			5 * time.Second, []string{"node0003", "start"}},
	} {
		t.Run(f.name, func(t *testing.T) {
			f.prepare()
			o := ibrun(t, c, append(f.args, "true")...)
			require.Equal(t, 125, o.code, o.stderr)
			for _, s := range f.says {
				require.Contains(t, o.stderr, s)
			}
			require.Less(t, o.took, f.most)
		})
	}
	// Noise is no failure.
	rc("node0002", "seq 2000; seq 2000 >&2; printf noise-without-newline")
	o := ibrun(t, c, "--hosts", "node0002", "hostname")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, "node0002\n", o.stdout)
	rc("node0002", "seq 20000")
	o = ibrun(t, c, "--hosts", "node0002", "hostname")
	require.Equal(t, 125, o.code)
	require.Contains(t, o.stderr, "64 KiB")
	eventually(t, 5*time.Second, "nothing is left", func() bool { return everywhere(t, c) == 0 })
}

// Every login shell takes the command, whatever it is.
func TestLoginShells(t *testing.T) {
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

// What goes up and down a tree of depth three over ssh is exact.
func TestBulk(t *testing.T) {
	c := cluster.Require(t, cluster.Config{Nodes: 3})
	const size = 64 << 20
	o := ibrun(t, c, "--hosts", "node[0001-0003]", "--tree", "chain", "sh", "-c",
		fmt.Sprintf("[ $RANK != 2 ] || openssl enc -aes-128-ctr -K 0 -iv 0 -in /dev/zero 2>/dev/null | head -c %d",
			size))
	require.Equal(t, 0, o.code, o.stderr)
	require.Len(t, o.stdout, size)
	j := ibrun(t, c, "--hosts", "node0001", "sh", "-c",
		fmt.Sprintf("openssl enc -aes-128-ctr -K 0 -iv 0 -in /dev/zero 2>/dev/null | head -c %d | sha256sum", size))
	require.Equal(t, 0, j.code, j.stderr)
	require.Equal(t, strings.Fields(j.stdout)[0], sum(o.stdout))
}
