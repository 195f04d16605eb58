//go:build cluster

package ssh

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
)

// TestCauses breaks a node in several ways, so that its agent cannot start. The message of ibrun must name the cause.
func TestCauses(t *testing.T) {
	parallel(t, working)
	c := own(t, cluster.Config{Nodes: 1})
	for _, f := range []struct {
		name, spoil, mend string
		says              string
	}{
		{"no /bin/sh", "mount --bind /root/.bashrc /bin/sh", "umount /bin/sh",
			`node0001 .* start .*/bin/sh: .*Permission denied; .*ls -lL /bin/sh`},
		{"little memory", "echo 'ulimit -v 60000' >/root/.bashrc", ": >/root/.bashrc",
			`node0001 .* agent .*the node gives it too little: fatal error: .*; .*ulimit -v`},
		{"a signal", "echo 'kill -SEGV $$' >/root/.bashrc", ": >/root/.bashrc",
			`node0001 .* start .*(the command there was killed by signal 11|ssh failed)`},
	} {
		for _, ssh := range []string{"native", "exec"} {
			t.Run(f.name+", "+ssh, func(t *testing.T) {
				on(t, c, "node0001", "/bin/bash", "-c", f.spoil)
				defer on(t, c, "node0001", "/bin/bash", "-c", f.mend)
				o := ibrun(t, c, "--ssh", ssh, "--hosts", "node0001", "true")
				require.Equal(t, 125, o.code, o.stderr)
				require.Regexp(t, f.says, o.stderr)
				require.NotContains(t, o.stderr, "goroutine")
				require.NotContains(t, o.stderr, "authenticate")
			})
		}
	}
}

// TestCutOneWay gives the front a wrong link address of a node. Packets to the node are then lost, while packets from
// the node arrive. The job must fail with a message that names the node, and says either that its agent received
// nothing from the front or that its host has not answered.
func TestCutOneWay(t *testing.T) {
	parallel(t, waiting)
	c := own(t, cluster.Config{Nodes: 2})
	j := asleep(t, c, 2, "--hosts", "node[0001-0002]", "--tree", "flat")
	out, err := c.Command(t.Context(), "ip", "neigh", "replace", c.Address("node0002"),
		"lladdr", "02:00:00:00:00:99", "dev", "eth0", "nud", "permanent").CombinedOutput()
	require.NoError(t, err, string(out))
	o := j.wait()
	require.Equal(t, 125, o.code, o.stderr)
	require.Contains(t, o.stderr, "node0002")
	require.Regexp(t, "received nothing from this host|has not answered", o.stderr)
}
