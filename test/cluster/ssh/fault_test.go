//go:build cluster

package ssh

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/test/executable"
	"ibrun/test/vcluster/cluster"
)

// endless starts a job on a chain of all nodes with two ranks each, and waits until all its processes run. Each rank
// has a child process in another session, and neither of them ends by itself.
func endless(t *testing.T, c *cluster.Cluster) *job {
	j := start(t, c, "-ppn", "2", "--hosts", strings.Join(c.Nodes(), ","), "--tree", "chain",
		"sh", "-c", "(setsid sleep 1000 </dev/null >/dev/null 2>&1 &); exec sleep 1000")
	await(t, "all processes run", func() bool { return everywhere(t, c) == len(c.Nodes())*(2+4) })
	return j
}

// parentOf returns the id of a process's parent. Both ids are those of the machine.
func parentOf(t *testing.T, pid int) int {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	require.NoError(t, err)
	words := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	parent, err := strconv.Atoi(words[1])
	require.NoError(t, err)
	return parent
}

// TestNothingToSee runs a job whose ranks use no PMIx. No process of ibrun may listen on a TCP port. The secret of the
// job, which the test takes from the standard input of an agent's session, must not be in the arguments or the
// environment of any process.
func TestNothingToSee(t *testing.T) {
	parallel(t, working)
	c := shared(t, 4)
	spied := filepath.Join(t.TempDir(), "stdin")
	spy := filepath.Join(t.TempDir(), "spy")
	require.NoError(t, executable.Write(spy, []byte("#!/bin/sh\ntee "+spied+" | "+c.VRSH()+" \"$@\"\n")))
	j := start(t, c, "--mpi", "none", "--launcher-exec", spy, "--hosts", "node0001", "sleep", "1000")
	await(t, "the job runs", func() bool { return everywhere(t, c) == 3 })
	secret := secretIn(t, spied)
	for _, node := range c.Nodes() {
		require.NotContains(t, on(t, c, node, "ss", "-ltnpH"), "ibrun")
	}
	found := false // whether the search has found the arguments of the rank, to be sure that it works
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

// secretIn returns the secret of a job from a file with the recorded standard input of an agent's session. It searches
// the file for the Launch frame, which has the secret, because the input may begin with the binary.
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
