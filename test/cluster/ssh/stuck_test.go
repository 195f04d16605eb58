//go:build cluster

package ssh

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/product"
	"ibrun/test/vcluster/cluster"
	"ibrun/test/waitfor"
)

// mountStuck mounts a file system at /tmp/net on a node. The server of the file system, test/stuck, does not answer.
// The channel waits is closed when a process waits for the file system and can no longer be killed. The function end
// stops the server, which releases such processes.
func mountStuck(t *testing.T, c *cluster.Cluster, node string) (waits <-chan struct{}, end func()) {
	program := filepath.Join(c.Shared(), "stuck")
	if _, err := os.Stat(program); err != nil {
		require.NoError(t, product.Program(program, "ibrun/test/stuck"))
	}
	on(t, c, node, "sh", "-c", "mkdir -p /tmp/net")
	server := c.Exec(t.Context(), node, program, "/tmp/net")
	in, err := server.StdinPipe()
	require.NoError(t, err)
	out, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	said := bufio.NewReader(out)
	word, err := said.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", word)
	stuck := make(chan struct{})
	go func() {
		if word, _ := said.ReadString('\n'); word == "waits\n" {
			close(stuck)
		}
	}()
	return stuck, func() {
		in.Close()
		_ = server.Wait()
	}
}

// jobs returns the processes of jobs on a node. These are all processes except for sshd and the server that mountStuck
// has started.
func jobs(t *testing.T, c *cluster.Cluster, node string) (found []cluster.Proc) {
	all, err := c.Processes(node)
	require.NoError(t, err)
	for _, p := range all {
		program := append(p.Argv, "")[0] // empty: the process is about to execute another program
		if !strings.Contains(program, "sshd") && !strings.HasSuffix(program, "/stuck") {
			found = append(found, p)
		}
	}
	return found
}

// limited runs ibrun with another limit of open files than the nodes have. Its ranks get that limit, too.
func limited(t *testing.T, c *cluster.Cluster, args ...string) outcome {
	return run(t, c, append([]string{"sh", "-c", `ulimit -S -n 300; exec "$@"`, "sh", program}, args...)...).wait()
}

func TestLimitOfFiles(t *testing.T) {
	parallel(t, working)
	c := shared(t, 4)
	require.NotEqual(t, "300", on(t, c, "node0001", "sh", "-c", "ulimit -S -n"))
	o := limited(t, c, "--hosts", "node0001", "sh", "-c", "ulimit -S -n")
	require.Equal(t, "300\n", o.stdout, o.stderr)
}

// TestHungStart lets a file system of an inner node hang when the ranks of the node start. The launch must fail at its
// time limit with a message that names the system call, and leave only processes that cannot be killed.
func TestHungStart(t *testing.T) {
	parallel(t, waiting)
	c := own(t, cluster.Config{Nodes: 3})
	const node = "node0002"
	for _, other := range c.Nodes() {
		on(t, c, other, "sh", "-c",
			"printf '#!/tmp/net/program\nexec sleep 1000\n' >/tmp/script && chmod 755 /tmp/script")
		if other != node {
			on(t, c, other, "sh", "-c",
				"mkdir -p /tmp/net/house && cp /bin/sh /tmp/net/program && cp /bin/sh /tmp/net/none")
		}
	}
	for _, h := range []struct {
		name  string
		says  string
		args  []string
		agent bool // a thread of the agent hangs, so the agent cannot be killed, either
	}{
		{"exec", "exec /tmp/script", []string{"/tmp/script"}, false},
		{"exec with limits", "exec /tmp/script", []string{"/tmp/script"}, false},
		{"directory", "chdir /tmp/net/house", []string{"--wdir", "/tmp/net/house", "sleep", "1000"}, false},
		{"file", "open /tmp/net/program", []string{"/tmp/net/program", "-c", "exec sleep 1000"}, true},
		{"name", "stat /tmp/net/none", []string{"/tmp/net/none", "-c", "exec sleep 1000"}, true},
	} {
		t.Run(h.name, func(t *testing.T) {
			_, end := mountStuck(t, c, node)
			defer end()
			args := append([]string{"--launch-timeout", "5", "--no-preflight", "--tree", "chain", "-ppn", "2",
				"--hosts", "node[0001-0003]"}, h.args...)
			run := ibrun
			if h.name == "exec with limits" {
				run = limited
			}
			o := run(t, c, args...)
			require.Equal(t, 126, o.code, o.stderr)
			require.Contains(t, o.raw, "waiting for node0002 (start of its ranks, ")
			require.Contains(t, o.stderr, "rank 2 and 1 others on node0002 could not be started: "+h.says+
				": it has not returned for 5s; hint: ")
			for _, other := range c.Nodes() {
				if other != node {
					await(t, "nothing is left on "+other, func() bool { return len(jobs(t, c, other)) == 0 })
				}
			}
			if !h.agent {
				await(t, "its reaper has given up, too", func() bool { return len(jobs(t, c, node)) == 1 })
				left := jobs(t, c, node)[0]
				require.Contains(t, o.stderr, fmt.Sprintf("node0002: process %d (", left.NodePid))
				require.Contains(t, o.stderr, "state D) lives on after SIGKILL")
			}
			end()
			await(t, "nothing is left", func() bool { return len(jobs(t, c, node)) == 0 })
		})
	}
}

// TestUnkillable ends a job with a rank that sleeps in the kernel. The message must name its host and process id, and
// no other process may be left.
func TestUnkillable(t *testing.T) {
	parallel(t, waiting)
	c := own(t, cluster.Config{Nodes: 3})
	const node = "node0002"
	waits, end := mountStuck(t, c, node)
	defer end()
	hung := func() (pid int) {
		for _, p := range jobs(t, c, node) {
			if append(p.Argv, "")[0] == "cat" {
				pid = p.NodePid
			}
		}
		return pid
	}
	args := func(program string) []string {
		return []string{"--tree", "chain", "-ppn", "2", "--hosts", "node[0001-0003]", "sh", "-c",
			"test $(hostname) = node0002 && test $IBRUN_LOCAL_RANK = 0 && exec " + program}
	}

	j := start(t, c, args("cat /tmp/net/program; exec sleep 1000")...)
	await(t, "all run", func() bool { return hung() != 0 && len(jobs(t, c, "node0003")) == 4 })
	waitfor.Closed(t, waits)
	pid := hung()
	require.NoError(t, j.cmd.Process.Signal(os.Interrupt))
	o := j.wait()
	require.Equal(t, 130, o.code, o.stderr)
	require.Contains(t, o.stderr, fmt.Sprintf("node0002: process %d (cat, state D) lives on after SIGKILL", pid))
	for _, other := range c.Nodes() {
		if other != node {
			await(t, "nothing is left on "+other, func() bool { return len(jobs(t, c, other)) == 0 })
		}
	}
	await(t, "its reaper has given up, too", func() bool { return len(jobs(t, c, node)) == 1 })
	end()
	await(t, "nothing is left", func() bool { return len(jobs(t, c, node)) == 0 })

	// A process that a rank leaves behind is reported, too. It does not make the job fail.
	waits, end = mountStuck(t, c, node)
	defer end()
	j = start(t, c, args("sh -c 'cat /tmp/net/program >/dev/null 2>&1 & "+
		"until test -e /tmp/go; do sleep 0.01; done'; true")...)
	waitfor.Closed(t, waits)
	on(t, c, node, "touch", "/tmp/go")
	o = j.wait()
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stderr, fmt.Sprintf("node0002: process %d (cat, state D) lives on after SIGKILL", hung()))
	end()
	await(t, "nothing is left", func() bool { return len(jobs(t, c, node)) == 0 })
}
