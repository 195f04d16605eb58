//go:build cluster

package ssh

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
)

// on runs a command on a node and returns what it printed. It fails the test if the command fails.
func on(t *testing.T, c *cluster.Cluster, node string, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := c.Exec(ctx, node, argv...).CombinedOutput()
	require.NoError(t, err, "%s: %v: %s", node, argv, out)
	return string(bytes.TrimSpace(out))
}

// TestSharedMemoryOverNodes lets ranks create files in /dev/shm and put the paths into the key-value store of PMI, as
// MPI libraries do. Then one rank is killed, so that no rank removes its file. ibrun must remove the files on each
// node.
func TestSharedMemoryOverNodes(t *testing.T) {
	parallel(t, working)
	c := shared(t, 4)
	const program = `
f=/dev/shm/left-by-$RANK; : >$f
value=$(printf %s $f | od -An -v -tx1 | tr -d ' \n')
ask() { printf '%s\n' "$1" >&3; read -r answer <&3; }
ask "cmd=init pmi_version=1 pmi_subversion=1"
ask "cmd=put kvsname=kvs_$IBRUN_JOB_ID key=k$RANK value=$value"
ask "cmd=barrier_in"
ls $f
[ $RANK = 3 ] && kill -9 $$
exec sleep 1000`
	o := ibrun(t, c, "--hosts", "node[0001-0003]", "-ppn", "2", "sh", "-c", program)
	require.Equal(t, 137, o.code, o.stderr)
	require.Contains(t, o.stdout, "/dev/shm/left-by-3\n")
	require.Equal(t, "ibrun: rank 3 on node0002 was killed by signal 9 (KILL)\n", o.stderr)
	for _, node := range c.Nodes() {
		require.Empty(t, on(t, c, node, "ls", "/dev/shm"), node)
	}
}
