//go:build cgo && !noib

package e2e

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
	"ibrun/internal/skip"
	"ibrun/test/fakeverbs"
)

// withDevices runs a command where /dev/infiniband is there, which it alone sees.
const withDevices = `mount -t tmpfs tmpfs "$1" && mkdir "$1/upper" "$1/work" && mount -t overlay overlay -o ` +
	`"lowerdir=/dev,upperdir=$1/upper,workdir=$1/work" /dev && mkdir -p /dev/infiniband && shift && exec "$@"`

// TestWorldOfTwoNetworks: one node has InfiniBand, as its rank is told by the variable that agents
// set, and the other has not. With --fabric auto that rank opens both, and the two talk over
// Ethernet.
func TestWorldOfTwoNetworks(t *testing.T) {
	if os.Getuid() != 0 {
		skip.Because(t, "mounting needs root")
	}
	fabrics := []string{"auto", "udp"}
	// rank 0 has InfiniBand, and talks to rank 1 over Ethernet
	pairs := []string{`"datagram_queue_pairs":1,`, `"datagram_queue_pairs":0,`}
	for i, fabric := range fabrics {
		o := onDevices(t, 0, "--lazy", "--fabric", fabric, "sh", "-c",
			`[ "$IBRUN_RANK" = 1 ] || export IBRUN_HCA=mlx5_0:1; exec "$0" "$@"`)
		require.Equal(t, 0, o.code, "%s", strings.TrimSpace(o.stderr))
		require.Contains(t, o.stderr, pairs[i])
	}
}

// A port that is listed and cannot be opened: --fabric auto takes Ethernet and says why with -v,
// --fabric ib says why and ends the job.
func TestWorldDeviceCannotBeOpened(t *testing.T) {
	if os.Getuid() != 0 {
		skip.Because(t, "mounting needs root")
	}
	port := []string{"sh", "-c", `export IBRUN_HCA=mlx5_0:1; exec "$0" "$@"`}
	for _, mode := range []string{"--lazy", "--eager"} {
		o := onDevices(t, syscall.ENODEV, append([]string{"--fabric", "auto", mode, "-v"}, port...)...)
		require.Equal(t, 0, o.code, o.stderr)
		require.Contains(t, o.stderr, `"datagram_queue_pairs":0,`)
		require.Regexp(t, `(?m)^ibrun: \S+: data does not go by InfiniBand: ib: .*mlx5_0: no such device`, o.stderr)
		o = onDevices(t, syscall.ENODEV, append([]string{"--fabric", "ib", mode}, port...)...)
		require.Equal(t, 1, o.code, o.stderr)
		require.Regexp(t,
			`(?m)^ibrun: rank \d+ on \S+ aborted the job with code 1: ib: .*mlx5_0: no such device.*--fabric udp$`,
			o.stderr)
	}
}

// onDevices runs a ring of two ranks on two nodes that have a device, which may fail to open.
func onDevices(t *testing.T, failure syscall.Errno, args ...string) outcome {
	t.Helper()
	n, err := fakeverbs.New(t.TempDir())
	require.NoError(t, err)
	port := fakeverbs.Port{LID: 5, SMLID: 1, GIDs: []verbs.GID{{Type: verbs.GIDIB, Addr: [16]byte{0: 0xfe, 1: 0x80,
		15: 1}}}}
	c := command(t, slices.Concat([]string{"--launcher", "local", "--hosts", "a,b", "-n", "2", "--stats=json"}, args,
		[]string{os.Args[0], ":world", "ring"})...)
	c.Env = append(os.Environ(), n.Env(fakeverbs.Node{Open: int(failure), Devices: []fakeverbs.Device{{Name: "mlx5_0",
		GUID: 1, Ports: []fakeverbs.Port{port}}}})...)
	c.Args = slices.Concat([]string{"unshare", "-m", "sh", "-c", withDevices, "sh", t.TempDir()}, c.Args)
	c.Path, err = exec.LookPath("unshare")
	require.NoError(t, err)
	return finish(t, c)
}
