//go:build cluster

package ssh

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
)

// upAndAsleep is the command line of a rank that prints "up" and then sleeps.
var upAndAsleep = []string{"sh", "-c", "echo up; exec sleep 1000"}

// asleep starts a job whose ranks sleep, and waits until all ranks run.
func asleep(t *testing.T, c *cluster.Cluster, ranks int, args ...string) *job {
	t.Helper()
	j := start(t, c, append(args, upAndAsleep...)...)
	await(t, "all ranks run", func() bool { return strings.Count(j.out.String(), "up\n") == ranks })
	return j
}

// writeZeros is a shell script with two arguments. It writes $1 zero bytes to standard output every half second until
// the file %[1]s exists. It then writes the total number of bytes to the file %[1]s.$2.
const writeZeros = `i=0; while [ ! -e %[1]s ]; do head -c $1 /dev/zero; i=$((i + $1)); sleep 0.5; done; echo $i >%[1]s.$2`

// TestRekey configures sshd to exchange new keys every ten seconds and every megabyte, also on idle connections. No
// input or output may be lost.
func TestRekey(t *testing.T) {
	parallel(t, waiting)
	c := own(t, cluster.Config{Nodes: 4, SSHD: []string{"RekeyLimit 1M 10s", "LogLevel DEBUG1"}})
	stop, script := filepath.Join(c.Shared(), "stop"), filepath.Join(c.Shared(), "pour")
	require.NoError(t, os.WriteFile(script, fmt.Appendf(nil, writeZeros, stop), 0o644))
	j := run(t, c, "sh", "-c", fmt.Sprintf(`sh %[1]s 60000 fed | %[2]s --ssh native --ssh-args "-o RekeyLimit=1M" `+
		`--hosts node[0001-0004] --tree kary:2 sh -c 'case $RANK in 0) wc -c;; 3) sh %[1]s 200000 sent;; `+
		`*) while [ ! -e %[3]s ]; do sleep 0.5; done;; esac'`, script, program, stop))
	for _, node := range c.Nodes() {
		await(t, "two more key exchanges of "+node, func() bool {
			return strings.Count(read(c.Log(node)), "rekeying in, ") >= 2
		})
	}
	require.NoError(t, os.WriteFile(stop, nil, 0o644))
	o := j.wait()
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, read(stop+".sent"), fmt.Sprintln(strings.Count(o.stdout, "\x00")))
	require.Contains(t, o.stdout, read(stop+".fed"))
}

// read returns the text of a file, or "" if it cannot be read.
func read(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}

// TestFrozenNode freezes the processes of a node, while its kernel still acknowledges packets. After a minute ibrun
// must consider the node lost and end the job.
func TestFrozenNode(t *testing.T) {
	parallel(t, waiting)
	c := own(t, cluster.Config{Nodes: 2})
	j := asleep(t, c, 2, "--hosts", "node[0001-0002]", "--tree", "flat")
	require.NoError(t, c.Freeze("node0002"))
	o := j.wait()
	require.NoError(t, c.Thaw("node0002"))
	require.Equal(t, 125, o.code, o.stderr)
	require.Regexp(t, "node0002 .*("+
		"its sshd has answered nothing for 1m0s|its host answers but its agent has been silent for 60 s)", o.stderr)
}

// TestStoppedRoot stops ibrun by SIGSTOP until its agent has ended because it received nothing. When ibrun continues,
// it must report that.
func TestStoppedRoot(t *testing.T) {
	parallel(t, waiting)
	c := own(t, cluster.Config{Nodes: 1})
	j := asleep(t, c, 1, "--hosts", "node0001")
	require.NoError(t, j.cmd.Process.Signal(syscall.SIGSTOP))
	await(t, "the agent ends", func() bool { return len(shells(c, "node0001")) == 0 })
	require.NoError(t, j.cmd.Process.Signal(syscall.SIGCONT))
	o := j.wait()
	require.Equal(t, 125, o.code, o.stderr)
	require.Contains(t, o.stderr, "its agent received nothing from this host and ended itself")
}

// TestCutBehindAProxy cuts off a node that ssh reaches through a proxy. The host of the proxy still answers, so only
// the keepalive messages of the program ssh can reveal the loss.
func TestCutBehindAProxy(t *testing.T) {
	parallel(t, waiting)
	c := own(t, cluster.Config{Nodes: 2})
	j := asleep(t, c, 1, "-v", "--ssh-args", "-J node0001", "--hosts", "node0002")
	require.NoError(t, c.Cut("node0002"))
	o := j.wait()
	require.Equal(t, 125, o.code, o.stderr)
	require.Contains(t, o.stderr, "node0002 is behind a proxy (proxyjump node0001): if it is cut off")
	require.Regexp(t, `node0002 .*: ssh failed \(code 255\): Timeout, server node0002 not responding`, o.stderr)
}
