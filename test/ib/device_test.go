//go:build ib

package ib

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/test/rdmavm/inside"
	"ibrun/test/waitfor"
)

func TestMain(m *testing.M) {
	inside.Main(m, "ibrun/cmd/ibrun", "ibrun/examples/stencil3d", "ibrun/examples/ring", "ibrun/examples/alltoall",
		"ibrun/lazy.test", "ibrun/cgo/verbs.test", "ibrun/fabric/ib.test")
}

// TestOtherPackages runs tests of other packages with the libibverbs of rdma-core on Soft-RoCE. In their own packages
// these tests use the fake libibverbs, so this test shows that both libraries behave alike.
func TestOtherPackages(t *testing.T) {
	inside.Require(t)
	for pkg, args := range map[string][]string{
		"lazy":      {"SchedulesOver|PortFails", "-schedules=6"},
		"cgo/verbs": {"/^roce$", "-test.skip", "Kept|Keeping|Others|NoPermission"},
		"fabric/ib": {"^TestKernelAnswers$"},
	} {
		t.Run(filepath.Base(pkg), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), inside.Program(filepath.Base(pkg)+".test"),
				append([]string{"-test.v", "-test.run"}, args...)...)
			cmd.Dir = filepath.Join("../..", pkg)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "--- PASS")
		})
	}
}

// output runs a program and returns its standard output and standard error. The test fails if the program does.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitfor.Deadline)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
	return string(out)
}

func TestDevicesAreActive(t *testing.T) {
	inside.Require(t)
	text := output(t, "ibv_devinfo")
	require.Equal(t, 2, strings.Count(text, "PORT_ACTIVE"), text)
	for _, device := range []string{"rxe0", "rxe1"} {
		require.Regexp(t, `hca_id:\s+`+device+`\n`, text)
	}
	var locked unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &locked))
	require.Equal(t, uint64(unix.RLIM_INFINITY), locked.Cur)
}

// received returns how many packets a device has received.
func received(t *testing.T, device string) int {
	text, err := os.ReadFile("/sys/class/infiniband/" + device + "/ports/1/hw_counters/rcvd_pkts")
	require.NoError(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	return n
}

// TestPingpong runs ibv_rc_pingpong of rdma-core between the two Soft-RoCE devices, with each kind of GID. Each device
// must have counted all packets that were sent to it.
func TestPingpong(t *testing.T) {
	inside.Require(t)
	const rounds, port = 50, 18515
	for gid, kind := range []string{"link-local", "IPv4"} {
		t.Run(kind, func(t *testing.T) {
			before := []int{received(t, "rxe0"), received(t, "rxe1")}
			common := []string{"-e", "-n", strconv.Itoa(rounds), "-g", strconv.Itoa(gid), "-p", strconv.Itoa(port)}
			ctx, cancel := context.WithTimeout(t.Context(), waitfor.Deadline)
			defer cancel()
			server := exec.CommandContext(ctx, "ibv_rc_pingpong", append(common, "-d", "rxe0")...)
			var heard bytes.Buffer
			server.Stdout, server.Stderr = &heard, &heard
			require.NoError(t, server.Start())
			waitfor.Require(t, "a server", func() bool { return listens(t, port) })
			out := output(t, "ibv_rc_pingpong", append(common, "-d", "rxe1", "10.77.0.1")...)
			require.Contains(t, out, fmt.Sprintf("%d iters", rounds))
			require.NoError(t, server.Wait(), heard.String())
			// In each round each device receives a message of 4096 bytes, which are four packets at an MTU of 1024 bytes.
			for i, device := range []string{"rxe0", "rxe1"} {
				require.GreaterOrEqual(t, received(t, device)-before[i], 4*rounds, device)
			}
		})
	}
}

// listens reports whether a process listens on a TCP port.
func listens(t *testing.T, port int) bool {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) && fields[3] == "0A" {
				return true
			}
		}
	}
	return false
}

// TestTopology requires that ibrun --display topo --json reports both Soft-RoCE devices with their ports and GIDs.
func TestTopology(t *testing.T) {
	inside.Require(t)
	type gid struct {
		GID, Type, Interface string
	}
	type port struct {
		State string
		Layer string `json:"link_layer"`
		LID   int
		GIDs  []gid
	}
	type hca struct {
		Name  string
		Ports []port
	}
	var machine struct{ HCAs []hca }
	require.NoError(t, json.Unmarshal([]byte(output(t, inside.Program("ibrun"), "--display", "topo", "--json")),
		&machine))
	var want []hca
	for i := range 2 {
		link := fmt.Sprintf("eth%d", i)
		want = append(want, hca{Name: fmt.Sprintf("rxe%d", i), Ports: []port{{State: "ACTIVE", Layer: "Ethernet",
			GIDs: []gid{
				{fmt.Sprintf("fe80:0000:0000:0000:0000:00ff:fe00:770%d", i), "RoCE v2", link},
				{fmt.Sprintf("0000:0000:0000:0000:0000:ffff:0a4d:000%d", i+1), "RoCE v2", link},
			}}}})
	}
	require.Equal(t, want, machine.HCAs)
}

// TestGuest tests two properties of the virtual machine that tests of ibrun need: programs can write files, and
// orphaned processes are reaped.
func TestGuest(t *testing.T) {
	inside.Require(t)
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, []byte("kept in the guest's memory"), 0o600))
	out := output(t, "sh", "-c", "(sleep 0.01 & echo $!)")
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	require.NoError(t, err)
	waitfor.Require(t, "an orphan is reaped", func() bool { return unix.Kill(pid, 0) == unix.ESRCH })
}

// processesOf returns the process IDs of all processes whose program has this name.
func processesOf(t *testing.T, program string) (pids []int) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	require.NoError(t, err)
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(text)) == program {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}
