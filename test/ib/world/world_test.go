//go:build ib

// Package world tests programs that use package ibrun: with a simulated InfiniBand device (test/fakeverbs), and built
// without InfiniBand support.
package world

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
	"ibrun/test/fakeverbs"
	"ibrun/test/launch"
	"ibrun/test/rdmavm/inside"
	"ibrun/test/skip"
)

var (
	bin     string             // the folder that contains the programs ibrun and ring
	network *fakeverbs.Network // the simulated InfiniBand network
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if bin, err = inside.Build("ibrun/cmd/ibrun", "ibrun/examples/ring"); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "world")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if network, err = fakeverbs.New(dir); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// inNamespace returns a command that runs a shell script with arguments in a new mount namespace. It skips the test if
// the test does not run as root.
func inNamespace(t *testing.T, script string, args ...string) *exec.Cmd {
	if os.Getuid() != 0 {
		skip.Because(t, "mounting needs root")
	}
	return exec.Command("unshare", append([]string{"-m", "sh", "-c", script, "sh"}, args...)...)
}

// localArgs returns arguments of ibrun for two ranks on the nodes a and b, followed by more. The agents of both nodes
// run on this machine.
func localArgs(more ...string) []string {
	return append([]string{"--launcher", "local", "--hosts", "a,b", "-n", "2"}, more...)
}

// runOnDevice runs a job of the program ring on a machine with a simulated InfiniBand device, and returns its exit code
// and output. If failure is not 0, opening the device fails with failure.
func runOnDevice(t *testing.T, failure syscall.Errno, args ...string) launch.Outcome {
	t.Helper()
	cmd := inNamespace(t, `mount -t tmpfs tmpfs "$1" && mkdir "$1/upper" "$1/work" && mount -t overlay overlay `+
		`-o "lowerdir=/dev,upperdir=$1/upper,workdir=$1/work" /dev && mkdir -p /dev/infiniband && shift && exec "$@"`,
		slices.Concat([]string{t.TempDir(), filepath.Join(bin, "ibrun")}, localArgs("--stats=json"), args,
			[]string{filepath.Join(bin, "ring")})...)
	port := fakeverbs.Port{LID: 5, SMLID: 1, GIDs: []verbs.GID{{Type: verbs.GIDIB, Addr: [16]byte{0: 0xfe, 1: 0x80,
		15: 1}}}}
	cmd.Env = append(os.Environ(), network.Env(fakeverbs.Node{Open: int(failure), Devices: []fakeverbs.Device{
		{Name: "mlx5_0", GUID: 1, Ports: []fakeverbs.Port{port}}}})...)
	return launch.Finish(t, cmd)
}

// TestWorldOfTwoNetworks runs a job in which only rank 0 has an InfiniBand port, because only its environment has
// IBRUN_HCA. With --fabric auto rank 0 must open the port, and the ranks must communicate over Ethernet. With --fabric
// udp no rank may open the port.
func TestWorldOfTwoNetworks(t *testing.T) {
	for fabric, pairs := range map[string]int{"auto": 1, "udp": 0} {
		o := runOnDevice(t, 0, "--lazy", "--fabric", fabric, "sh", "-c",
			`[ "$IBRUN_RANK" = 1 ] || export IBRUN_HCA=mlx5_0:1; exec "$0" "$@"`)
		require.Equal(t, 0, o.Code, o.Stderr)
		require.Contains(t, o.Stderr, fmt.Sprintf(`"datagram_queue_pairs":%d,`, pairs))
	}
}

// TestWorldDeviceCannotBeOpened runs jobs on a device that libibverbs lists but that cannot be opened. With --fabric
// auto the ranks must communicate over Ethernet, and ibrun -v must print the error. With --fabric ib the job must fail
// with this error.
func TestWorldDeviceCannotBeOpened(t *testing.T) {
	port := []string{"sh", "-c", `export IBRUN_HCA=mlx5_0:1; exec "$0" "$@"`}
	for _, mode := range []string{"--lazy", "--eager"} {
		o := runOnDevice(t, syscall.ENODEV, append([]string{"--fabric", "auto", mode, "-v"}, port...)...)
		require.Equal(t, 0, o.Code, o.Stderr)
		require.Contains(t, o.Stderr, `"datagram_queue_pairs":0,`)
		require.Regexp(t, `(?m)^ibrun: \S+: data does not go by InfiniBand: ib: .*mlx5_0: no such device`, o.Stderr)
		o = runOnDevice(t, syscall.ENODEV, append([]string{"--fabric", "ib", mode}, port...)...)
		require.Equal(t, 1, o.Code, o.Stderr)
		require.Regexp(t,
			`(?m)^ibrun: rank \d+ on \S+ aborted the job with code 1: ib: .*mlx5_0: no such device.*--fabric udp$`,
			o.Stderr)
	}
}

// hideHeader is a shell script that hides verbs.h and then runs go build with the arguments of the script. The option
// -gcflags makes go compile cgo/verbs again, because the build cache has only packages that were compiled with other
// flags. The flag -e itself is not needed.
const hideHeader = `mount -t tmpfs tmpfs /usr/include/infiniband && exec go build -gcflags=ibrun/cgo/verbs=-e "$@"`

// TestWorldBuiltWithoutHeader compiles a program with cgo while verbs.h is missing. The program must run over Ethernet.
// With --fabric ib the job must fail with an error that names the missing header.
func TestWorldBuiltWithoutHeader(t *testing.T) {
	ring := filepath.Join(bin, "ring-without-header")
	o := launch.Finish(t, inNamespace(t, hideHeader, "-o", ring, "ibrun/examples/ring"))
	require.Equal(t, 0, o.Code, o.Stderr)
	launcher := filepath.Join(bin, "ibrun")
	o = launch.Finish(t, exec.Command(launcher, localArgs("--fabric", "auto", ring)...))
	require.Equal(t, 0, o.Code, o.Stderr)
	o = launch.Finish(t, exec.Command(launcher, localArgs("--fabric", "ib", ring)...))
	require.Equal(t, 1, o.Code, o.Stderr)
	require.Regexp(t, `(?m)^ibrun: rank \d on \S+ aborted the job with code 1: ib: this program was built without `+
		`InfiniBand support: infiniband/verbs.h was not found; build with cgo, infiniband/verbs.h `+
		`\(Debian: libibverbs-dev\) and -tags ib; see ibrun --doctor, or use --fabric udp$`, o.Stderr)
}

// TestTagNeedsHeader requires that go build -tags ib fails if verbs.h is missing.
func TestTagNeedsHeader(t *testing.T) {
	o := launch.Finish(t, inNamespace(t, hideHeader, "-tags", "ib", "ibrun/cgo/verbs"))
	require.Equal(t, 1, o.Code, o.Stderr)
	require.Contains(t, o.Stderr, "infiniband/verbs.h: No such file or directory")
}
