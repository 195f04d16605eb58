//go:build cgo && !noib

package e2e

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
	"ibrun/internal/skip"
	"ibrun/test/fakeverbs"
)

// withDevices runs a command where /dev/infiniband is there, which it alone sees.
const withDevices = `mount -t tmpfs tmpfs "$1" && mkdir "$1/upper" "$1/work" && mount -t overlay overlay -o "lowerdir=/dev,upperdir=$1/upper,workdir=$1/work" /dev && mkdir -p /dev/infiniband && shift && exec "$@"`

// TestWorldOfTwoNetworks: one node has InfiniBand, as its rank is told by the variable that agents set, and the other has not. With
// --fabric auto that rank opens both, and the two talk over Ethernet.
func TestWorldOfTwoNetworks(t *testing.T) {
	if os.Getuid() != 0 {
		skip.Because(t, "mounting needs root")
	}
	n, err := fakeverbs.New(t.TempDir())
	require.NoError(t, err)
	port := fakeverbs.Port{LID: 5, SMLID: 1, GIDs: []verbs.GID{{Type: verbs.GIDIB, Addr: [16]byte{0: 0xfe, 1: 0x80, 15: 1}}}}
	env := n.Env(fakeverbs.Node{Devices: []fakeverbs.Device{{Name: "mlx5_0", GUID: 1, Ports: []fakeverbs.Port{port}}}})
	run := func(fabric string) outcome {
		c := command(t, "--launcher", "local", "--hosts", "a,b", "-n", "2", "--lazy", "--stats=json", "--fabric", fabric,
			"sh", "-c", `[ "$IBRUN_RANK" = 1 ] || export IBRUN_HCA=mlx5_0:1; exec "$0" "$@"`, os.Args[0], ":world", "ring")
		c.Env = append(os.Environ(), env...)
		c.Args = slices.Concat([]string{"unshare", "-m", "sh", "-c", withDevices, "sh", t.TempDir()}, c.Args)
		c.Path, err = exec.LookPath("unshare")
		require.NoError(t, err)
		return finish(t, c)
	}
	o := run("auto")
	require.Equal(t, 0, o.code, "%s", strings.TrimSpace(o.stderr))
	require.Contains(t, o.stderr, `"datagram_queue_pairs":1,`, "rank 0 has InfiniBand, and talks to rank 1 over Ethernet")
	o = run("udp")
	require.Equal(t, 0, o.code, "%s", strings.TrimSpace(o.stderr))
	require.Contains(t, o.stderr, `"datagram_queue_pairs":0,`)
}
