//go:build cluster

package cluster_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/skip"
	"ibrun/test/vcluster/cluster"
	"ibrun/test/waitfor"
)

// front runs a command line on the front and returns what it printed.
func front(t *testing.T, c *cluster.Cluster, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitfor.Deadline)
	defer cancel()
	out, err := c.Command(ctx, "sh", "-c", line).CombinedOutput()
	require.NoError(t, err, "%s: %s", line, out)
	return strings.TrimSpace(string(out))
}

// fails runs a command line on the front, which must fail, and returns what it printed.
func fails(t *testing.T, c *cluster.Cluster, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitfor.Deadline)
	defer cancel()
	out, err := c.Command(ctx, "sh", "-c", line).CombinedOutput()
	require.Error(t, err, "%s: %s", line, out)
	return string(out)
}

func TestFourNodes(t *testing.T) {
	before := leftovers(t)
	c := cluster.Require(t, cluster.Config{Nodes: 4})
	require.Equal(t, []string{"node0001", "node0002", "node0003", "node0004"}, c.Nodes())

	t.Run("names", func(t *testing.T) {
		require.Equal(t, "front", front(t, c, "hostname"))
		require.Equal(t, "node0001", front(t, c, "ssh -o BatchMode=yes node0001 hostname"))
		require.Equal(t, "node0003",
			front(t, c, "ssh -o BatchMode=yes node0002 ssh -o BatchMode=yes node0003 hostname"))
		host, err := os.Hostname()
		require.NoError(t, err)
		require.NotEqual(t, "front", host, "the machine keeps its own name")
	})
	t.Run("identity", func(t *testing.T) {
		seen := map[string]bool{}
		for _, node := range c.Nodes() {
			for _, file := range []string{"/proc/sys/kernel/random/boot_id", "/etc/machine-id"} {
				out, err := c.Exec(t.Context(), node, "cat", file).Output()
				require.NoError(t, err)
				require.NotEmpty(t, bytes.TrimSpace(out))
				require.False(t, seen[string(out)], "%s of %s must differ from that of other nodes", file, node)
				seen[string(out)] = true
			}
		}
	})
	t.Run("private and shared files", func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(c.Shared(), "word"), []byte("hello"), 0o644))
		private := fmt.Sprintf("/tmp/private-%d", os.Getpid())
		require.Equal(t, "hello", front(t, c, "ssh node0002 'echo private >"+private+"; cat "+c.Shared()+"/word'"))
		require.NoFileExists(t, private)
		fails(t, c, "ssh node0001 cat "+private)
		wd, err := os.Getwd()
		require.NoError(t, err)
		require.Contains(t, front(t, c, "ssh node0002 ls "+wd), "nodes_cluster_test.go")
	})
	t.Run("rsh stand-in", func(t *testing.T) {
		require.Equal(t, "node0004 /root", front(t, c, c.VRSH()+` node0003 'vrsh node0004 "echo \$(hostname) \$PWD"'`))
		require.Equal(t, "9", front(t, c, "vrsh -n -l root node0001 exit 9 || echo $?"))
		require.Equal(t, "in", front(t, c, "echo in | vrsh node0001 cat"))
		require.Contains(t, fails(t, c, "vrsh node0099 true"), "node0099")
	})
	t.Run("exec", func(t *testing.T) {
		out, err := c.Exec(t.Context(), "node0001", "printf", "%s|", "a b", "", "$(x)\n").Output()
		require.NoError(t, err)
		require.Equal(t, "a b||$(x)\n|", string(out))

		ctx, cancel := context.WithCancel(t.Context())
		cmd := c.Exec(ctx, "node0001", "sleep", "1000")
		require.NoError(t, cmd.Start())
		waitfor.Require(t, "processes that sleep: 1", func() bool { return running(t, c, "node0001", "sleep") == 1 })
		cancel()
		require.Error(t, cmd.Wait())
		waitfor.Require(t, "processes that sleep: 0", func() bool { return running(t, c, "node0001", "sleep") == 0 })
	})
	t.Run("signals reach the command itself", func(t *testing.T) {
		cmd := c.Command(t.Context(), "sleep", "1000")
		require.NoError(t, cmd.Start())
		waitfor.Require(t, "processes that sleep: 1", func() bool { return running(t, c, cluster.FrontName, "sleep") == 1 })
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.ErrorContains(t, cmd.Wait(), "terminated")
	})
	t.Run("cut and heal", func(t *testing.T) {
		const probe = "ssh -o ConnectTimeout=1 node0001 ssh -o ConnectTimeout=1 node0002 hostname"
		require.NoError(t, c.Cut("node0002"))
		require.Contains(t, fails(t, c, probe), "timed out")
		require.Equal(t, "node0003", front(t, c, "ssh node0003 hostname"))
		out, err := c.Exec(t.Context(), "node0002", "hostname").Output()
		require.NoError(t, err, "Exec must work on a node that is cut off")
		require.Equal(t, "node0002\n", string(out))
		// The front sends three ARP requests for node0002 at intervals of a second. When no reply comes, it reports "no
		// route to host" for about a second. Heal must end that period.
		front(t, c, "ip neigh flush all")
		fails(t, c, "timeout 2.6 ssh node0002 true")
		require.NoError(t, c.Heal("node0002"))
		require.Equal(t, "node0002", front(t, c, "ssh node0002 hostname"))
		require.Equal(t, "node0002", front(t, c, "ssh node0001 ssh node0002 hostname"))
	})
	t.Run("freeze and thaw", func(t *testing.T) {
		require.NoError(t, c.Freeze("node0003"))
		require.Contains(t, fails(t, c, "ssh -o ConnectTimeout=1 node0003 true"), "timed out during banner exchange")
		require.NoError(t, c.Thaw("node0003"))
		require.Equal(t, "node0003", front(t, c, "ssh node0003 hostname"))
	})
	t.Run("kill, start", func(t *testing.T) {
		cmd := c.Exec(t.Context(), "node0004", "sh", "-c", "setsid sleep 1000 & exec sleep 1000")
		require.NoError(t, cmd.Start())
		waitfor.Require(t, "processes that sleep: 2", func() bool { return running(t, c, "node0004", "sleep") == 2 })
		require.NoError(t, c.Kill("node0004"))
		require.Error(t, cmd.Wait())
		procs, err := c.Processes("node0004")
		require.NoError(t, err)
		require.Empty(t, procs)
		require.Contains(t, fails(t, c, "ssh node0004 true"), "refused")
		require.NoError(t, c.Start("node0004"))
		require.Equal(t, "node0004", front(t, c, "ssh node0004 hostname"))
	})
	t.Run("crash", func(t *testing.T) {
		require.NoError(t, c.Freeze("node0004"))
		require.NoError(t, c.Crash("node0004"))
		require.Contains(t, fails(t, c, "ssh -o ConnectTimeout=1 node0004 true"), "timed out")
		require.ErrorContains(t, c.Crash("node0005"), `no host "node0005"`)
	})
	t.Run("close leaves nothing", func(t *testing.T) {
		require.NoError(t, c.Command(t.Context(), "sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 </dev/null &").Run())
		require.NoError(t, c.Freeze("node0001"))
		require.NoError(t, c.Close())
		require.NoError(t, c.Close(), "a second Close must have no effect")
		require.NoDirExists(t, c.Shared())
		require.Equal(t, before, leftovers(t))
		_, err := c.Processes("node0001")
		require.Error(t, err)
	})
}

func TestRealRSH(t *testing.T) {
	c := cluster.Require(t, cluster.Config{Nodes: 2, RSH: true, NoSSH: true})
	require.Equal(t, "node0002", front(t, c, "rsh-redone-rsh node0001 rsh-redone-rsh node0002 hostname </dev/null"))
}

func TestManyNodes(t *testing.T) {
	before, err := net.Interfaces()
	require.NoError(t, err)
	c := cluster.Require(t, cluster.Config{Nodes: 32, NoSSH: true})
	for _, node := range c.Nodes() {
		require.Equal(t, node, front(t, c, "vrsh "+node+" hostname"))
	}
	require.Equal(t, "10.77.1.32", c.Address("node0032"))
	links, err := net.Interfaces()
	require.NoError(t, err)
	require.Equal(t, before, links, "the machine's own network is not touched")
}

func TestSizeIsChecked(t *testing.T) {
	for _, n := range []int{-1, 0, 1023} {
		_, err := cluster.Up(t.Context(), cluster.Config{Nodes: n})
		require.Error(t, err)
	}
}

// running counts a host's processes by the base name of their program.
func running(t *testing.T, c *cluster.Cluster, host, program string) (n int) {
	t.Helper()
	procs, err := c.Processes(host)
	require.NoError(t, err)
	for _, p := range procs {
		if len(p.Argv) > 0 && filepath.Base(p.Argv[0]) == program {
			n++
		}
	}
	return n
}

// leftovers returns the mounts of the machine and the children of this process. They must be the same before and after
// a cluster.
func leftovers(t *testing.T) []string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	left := strings.Split(string(mounts), "\n")
	children, err := filepath.Glob("/proc/self/task/*/children")
	require.NoError(t, err)
	for _, file := range children {
		text, err := os.ReadFile(file)
		if err == nil && len(text) > 0 {
			left = append(left, "children: "+string(text))
		}
	}
	slices.Sort(left)
	return left
}

// TestMaker makes a cluster, freezes a node and waits to be killed. TestMakerKilled runs it in a child process.
func TestMaker(t *testing.T) {
	if os.Getenv("VCLUSTER_MAKER") == "" {
		return // TestMakerKilled has not started this process.
	}
	c := cluster.Require(t, cluster.Config{Nodes: 2, NoSSH: true})
	require.NoError(t, c.Command(t.Context(), "sh", "-c", "setsid sleep 4321 >/dev/null 2>&1 </dev/null &").Run())
	require.NoError(t, c.Freeze("node0001"))
	os.Stdout.WriteString("dir " + c.Shared() + "\n")
	<-t.Context().Done()
}

func TestMakerKilled(t *testing.T) {
	if os.Geteuid() != 0 {
		skip.Because(t, cluster.ErrNotRoot.Error())
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestMaker$", "-test.v")
	cmd.Env = append(os.Environ(), "VCLUSTER_MAKER=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	dir := ""
	for lines := bufio.NewScanner(out); dir == "" && lines.Scan(); {
		dir, _ = strings.CutPrefix(lines.Text(), "dir ")
		if !strings.HasPrefix(dir, "/") {
			dir = ""
		}
	}
	require.DirExists(t, dir)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	waitfor.Require(t, "nothing of the cluster is left", func() bool {
		_, err := os.Stat(filepath.Dir(dir))
		return os.IsNotExist(err) && !machineRuns(t, "4321")
	})
}

// machineRuns reports whether the machine has a process whose last argument is word.
func machineRuns(t *testing.T, word string) bool {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.HasSuffix(string(text), "\x00"+word+"\x00")
	})
}
