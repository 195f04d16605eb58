//go:build cluster

package ssh

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/internal/executable"
	"ibrun/test/vcluster/cluster"
)

// endless is a job on seven nodes, three links deep, whose ranks leave
// processes of their own behind.
func endless(t *testing.T, c *cluster.Cluster, more ...string) *job {
	args := append(more, "-n", "14", "--hosts", "node[0001-0007]", "--tree", "kary:2",
		"sh", "-c", "(setsid sleep 1000 </dev/null >/dev/null 2>&1 &); exec sleep 1000")
	j := start(t, c, args...)
	eventually(t, 2*time.Minute, "everything runs", func() bool { return everywhere(t, c) == 7*(2+4) })
	return j
}

// agentOf is the agent of a node, by its number on the machine.
func agentOf(t *testing.T, c *cluster.Cluster, node string) int {
	for _, p := range ours(t, c, node) {
		if len(p.Argv) > 1 && p.Argv[1] == ":agent" {
			return p.Pid
		}
	}
	t.Fatalf("no agent on %s", node)
	return 0
}

// client is an ssh client below a process.
func client(t *testing.T, parent int) int {
	lists, _ := filepath.Glob("/proc/" + strconv.Itoa(parent) + "/task/*/children")
	for _, l := range lists {
		b, _ := os.ReadFile(l)
		for _, child := range strings.Fields(string(b)) {
			if name, _ := os.ReadFile("/proc/" + child + "/comm"); string(name) == "ssh\n" {
				n, err := strconv.Atoi(child)
				require.NoError(t, err)
				return n
			}
		}
	}
	t.Fatal("no ssh client")
	return 0
}

// server is the sshd of a session on a node, by its number on the machine: the
// parent of the reaper.
func server(t *testing.T, c *cluster.Cluster, node string) int {
	for _, p := range ours(t, c, node) {
		if len(p.Argv) > 1 && p.Argv[1] == ":reaper" {
			return parentOf(t, p.Pid)
		}
	}
	t.Fatalf("no reaper on %s", node)
	return 0
}

// parentOf is the parent of a process, by its number on the machine.
func parentOf(t *testing.T, pid int) int {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	require.NoError(t, err)
	words := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	parent, err := strconv.Atoi(words[1])
	require.NoError(t, err)
	return parent
}

func TestKills(t *testing.T) {
	c := cluster.Require(t, cluster.Config{Nodes: 7})
	for _, k := range []struct {
		name   string
		victim func(j *job) int
		code   int
		says   string
		ssh    string
	}{
		{"root", func(j *job) int { return j.cmd.Process.Pid }, -1, "", "native"},
		{"root with ssh", func(j *job) int { return j.cmd.Process.Pid }, -1, "", "exec"},
		{"child of the root", func(*job) int { return agentOf(t, c, "node0001") }, 125,
			"the agent on node0001 was lost", "native"},
		{"inner agent", func(*job) int { return agentOf(t, c, "node0002") }, 125, "the agent on node0002 was lost",
			"native"},
		{"inner agent with ssh", func(*job) int { return agentOf(t, c, "node0002") }, 125,
			"the agent on node0002 was lost", "exec"},
		{"leaf agent", func(*job) int { return agentOf(t, c, "node0007") }, 125, "the agent on node0007 was lost",
			"native"},
		{"ssh client", func(j *job) int { return client(t, agentOf(t, c, "node0001")) }, 125, "was killed by signal 9",
			"exec"},
		{"sshd of an inner agent", func(*job) int { return server(t, c, "node0002") }, 125,
			"the connection to its sshd was lost", "native"},
	} {
		t.Run(k.name, func(t *testing.T) {
			j := endless(t, c, "--ssh", k.ssh)
			began := time.Now()
			require.NoError(t, syscall.Kill(k.victim(j), syscall.SIGKILL))
			o := j.wait()
			require.Equal(t, k.code, o.code, o.stderr)
			require.Contains(t, o.stderr, k.says)
			eventually(t, 5*time.Second-time.Since(began), "nothing is left",
				func() bool { return everywhere(t, c) == 0 })
		})
	}
}

// A node that is cut off ends the job within 15 s, on both sides of the cut.
func TestCutForLong(t *testing.T) {
	t.Parallel()
	c := cluster.Require(t, cluster.Config{Nodes: 7})
	j := endless(t, c)
	began := time.Now()
	require.NoError(t, c.Cut("node0002"))
	o := j.wait()
	require.Less(t, time.Since(began), 15*time.Second)
	require.Equal(t, 125, o.code)
	require.Contains(t, o.stderr, "node0002")
	require.Contains(t, o.stderr, "has not answered")
	eventually(t, 20*time.Second-time.Since(began), "nothing is left", func() bool { return everywhere(t, c) == 0 })
	require.NoError(t, c.Heal("node0002"))
}

// A cut of four seconds is nothing.
func TestCutForShort(t *testing.T) {
	t.Parallel()
	c := cluster.Require(t, cluster.Config{Nodes: 4})
	j := start(t, c, "-n", "4", "--hosts", "node[0001-0004]", "--tree", "chain", "sh", "-c",
		"echo up; sleep 20; echo $RANK")
	eventually(t, 2*time.Minute, "the last agent is up", func() bool { return len(ours(t, c, "node0004")) >= 2 })
	require.NoError(t, c.Cut("node0002"))
	<-time.After(4 * time.Second) // the fault's length, not a wait for something
	require.NoError(t, c.Heal("node0002"))
	o := j.wait()
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, 4, strings.Count(o.stdout, "up\n"))
	require.Empty(t, o.stderr)
}

// While a job runs nothing of ibrun listens if its ranks use no PMIx, and its secret can be read
// nowhere: it is taken from the wire here and looked for.
func TestNothingToSee(t *testing.T) {
	c := cluster.Require(t, cluster.Config{Nodes: 4})
	spied := filepath.Join(t.TempDir(), "stdin")
	spy := filepath.Join(t.TempDir(), "spy")
	require.NoError(t, executable.Write(spy, []byte("#!/bin/sh\ntee "+spied+" | "+c.VRSH()+" \"$@\"\n")))
	j := start(t, c, "--mpi", "none", "--launcher-exec", spy, "--hosts", "node0001", "sleep", "1000")
	eventually(t, 2*time.Minute, "it runs", func() bool { return everywhere(t, c) == 3 })
	secret := secretIn(t, spied)
	for _, node := range c.Nodes() {
		out, err := c.Exec(t.Context(), node, "ss", "-ltnpH").CombinedOutput()
		require.NoError(t, err)
		require.NotContains(t, string(out), "ibrun")
	}
	found := false // the search itself: it must see a word that is there
	for _, f := range []string{"cmdline", "environ"} {
		files, _ := filepath.Glob("/proc/[0-9]*/" + f)
		require.NotEmpty(t, files)
		for _, name := range files {
			b, _ := os.ReadFile(name)
			found = found || bytes.Equal(b, []byte("sleep\x001000\x00"))
			require.False(t, bytes.Contains(b, secret[:]) || bytes.Contains(b, []byte(hex.EncodeToString(secret[:]))),
				name)
		}
	}
	require.True(t, found)
	require.NoError(t, j.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, 130, j.wait().code)
}

// secretIn finds the Launch frame in what went down a session, after the
// binary if that went too.
func secretIn(t *testing.T, file string) [32]byte {
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	for i := range b {
		if i+5 > len(b) || b[i+4] != byte(wire.KindLaunch) {
			continue
		}
		size := int(b[i])<<24 | int(b[i+1])<<16 | int(b[i+2])<<8 | int(b[i+3])
		if size < 64 || i+4+size > len(b) {
			continue
		}
		if m, err := wire.Vocabulary.Parse(b[i+4 : i+4+size]); err == nil {
			secret := m.(wire.Launch).Job.Secret
			require.NotEqual(t, [32]byte{}, secret)
			return secret
		}
	}
	t.Fatal("no Launch on the wire")
	return [32]byte{}
}
