//go:build ib

// Package world tests programs of package ibrun on the simulated InfiniBand device of test/fakeverbs, and programs that
// were built without InfiniBand support.
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
	"ibrun/internal/skip"
	"ibrun/test/fakeverbs"
	"ibrun/test/launch"
	"ibrun/test/rdmavm/inside"
)

var (
	bin     string             // the folder with ibrun and ring
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

// namespace returns a command that runs a shell script in a new mount namespace. It skips the test without root.
func namespace(t *testing.T, script string, args ...string) *exec.Cmd {
	if os.Getuid() != 0 {
		skip.Because(t, "mounting needs root")
	}
	return exec.Command("unshare", append([]string{"-m", "sh", "-c", script, "sh"}, args...)...)
}

// local returns arguments of ibrun for two ranks on two nodes, whose agents run on this machine.
func local(more ...string) []string {
	return append([]string{"--launcher", "local", "--hosts", "a,b", "-n", "2"}, more...)
}

// onDevice runs the program ring on nodes that have a simulated device. If failure is not 0, opening the device fails
// with this error.
func onDevice(t *testing.T, failure syscall.Errno, args ...string) launch.Outcome {
	t.Helper()
	cmd := namespace(t, `mount -t tmpfs tmpfs "$1" && mkdir "$1/upper" "$1/work" && mount -t overlay overlay `+
		`-o "lowerdir=/dev,upperdir=$1/upper,workdir=$1/work" /dev && mkdir -p /dev/infiniband && shift && exec "$@"`,
		slices.Concat([]string{t.TempDir(), filepath.Join(bin, "ibrun")}, local("--stats=json"), args,
			[]string{filepath.Join(bin, "ring")})...)
	port := fakeverbs.Port{LID: 5, SMLID: 1, GIDs: []verbs.GID{{Type: verbs.GIDIB, Addr: [16]byte{0: 0xfe, 1: 0x80,
		15: 1}}}}
	cmd.Env = append(os.Environ(), network.Env(fakeverbs.Node{Open: int(failure), Devices: []fakeverbs.Device{
		{Name: "mlx5_0", GUID: 1, Ports: []fakeverbs.Port{port}}}})...)
	return launch.Finish(t, cmd)
}

// TestWorldOfTwoNetworks runs a job in which only rank 0 has an InfiniBand port, because only its environment has
// IBRUN_HCA. With --fabric auto rank 0 must open the port and Ethernet, and the ranks must use Ethernet.
func TestWorldOfTwoNetworks(t *testing.T) {
	for fabric, pairs := range map[string]int{"auto": 1, "udp": 0} {
		o := onDevice(t, 0, "--lazy", "--fabric", fabric, "sh", "-c",
			`[ "$IBRUN_RANK" = 1 ] || export IBRUN_HCA=mlx5_0:1; exec "$0" "$@"`)
		require.Equal(t, 0, o.Code, o.Stderr)
		require.Contains(t, o.Stderr, fmt.Sprintf(`"datagram_queue_pairs":%d,`, pairs))
	}
}

// TestWorldDeviceCannotBeOpened runs jobs with a port that is listed but cannot be opened. With --fabric auto the job
// must use Ethernet, and -v must print the error. With --fabric ib the error must end the job.
func TestWorldDeviceCannotBeOpened(t *testing.T) {
	port := []string{"sh", "-c", `export IBRUN_HCA=mlx5_0:1; exec "$0" "$@"`}
	for _, mode := range []string{"--lazy", "--eager"} {
		o := onDevice(t, syscall.ENODEV, append([]string{"--fabric", "auto", mode, "-v"}, port...)...)
		require.Equal(t, 0, o.Code, o.Stderr)
		require.Contains(t, o.Stderr, `"datagram_queue_pairs":0,`)
		require.Regexp(t, `(?m)^ibrun: \S+: data does not go by InfiniBand: ib: .*mlx5_0: no such device`, o.Stderr)
		o = onDevice(t, syscall.ENODEV, append([]string{"--fabric", "ib", mode}, port...)...)
		require.Equal(t, 1, o.Code, o.Stderr)
		require.Regexp(t,
			`(?m)^ibrun: rank \d+ on \S+ aborted the job with code 1: ib: .*mlx5_0: no such device.*--fabric udp$`,
			o.Stderr)
	}
}

// withoutHeader is a shell script that runs go build while verbs.h is hidden. The compiler option -e for cgo/verbs
// forces go to compile this package again, because its flags differ from those in the build cache.
const withoutHeader = `mount -t tmpfs tmpfs /usr/include/infiniband && exec go build -gcflags=ibrun/cgo/verbs=-e "$@"`

// TestWorldBuiltWithoutHeader compiles a program with cgo and without verbs.h. It must run over Ethernet. With --fabric
// ib the job must fail with an error that names the missing header.
func TestWorldBuiltWithoutHeader(t *testing.T) {
	ring := filepath.Join(bin, "ring-without-header")
	o := launch.Finish(t, namespace(t, withoutHeader, "-o", ring, "ibrun/examples/ring"))
	require.Equal(t, 0, o.Code, o.Stderr)
	launcher := filepath.Join(bin, "ibrun")
	o = launch.Finish(t, exec.Command(launcher, local("--fabric", "auto", ring)...))
	require.Equal(t, 0, o.Code, o.Stderr)
	o = launch.Finish(t, exec.Command(launcher, local("--fabric", "ib", ring)...))
	require.Equal(t, 1, o.Code, o.Stderr)
	require.Regexp(t, `(?m)^ibrun: rank \d on \S+ aborted the job with code 1: ib: this program was built without `+
		`InfiniBand support: infiniband/verbs.h was not found; build with cgo, infiniband/verbs.h `+
		`\(Debian: libibverbs-dev\) and -tags ib; see ibrun --doctor, or use --fabric udp$`, o.Stderr)
}

// TestTagNeedsHeader requires that a build with -tags ib fails if verbs.h is missing.
func TestTagNeedsHeader(t *testing.T) {
	o := launch.Finish(t, namespace(t, withoutHeader, "-tags", "ib", "ibrun/cgo/verbs"))
	require.Equal(t, 1, o.Code, o.Stderr)
	require.Contains(t, o.Stderr, "infiniband/verbs.h: No such file or directory")
}
