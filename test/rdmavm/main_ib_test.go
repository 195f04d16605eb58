//go:build ib

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/launch"
	"ibrun/test/rdmavm/inside"
	"ibrun/test/skip"
	"ibrun/test/waitfor"
)

// bin is the folder of the programs under test.
var bin string

func TestMain(m *testing.M) {
	var err error
	if bin, err = inside.Build(inside.Machine, "ibrun/cmd/ibrun"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// rdmavm runs the program rdmavm with args, waits for it, and returns its exit code and output. If change is not nil,
// it may modify the command before it starts. rdmavm run ends by itself after 5 minutes.
func rdmavm(t *testing.T, change func(*exec.Cmd), args ...string) launch.Outcome {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "rdmavm"), args...)
	if change != nil {
		change(cmd)
	}
	return launch.Finish(t, cmd)
}

// image makes requireQemu build the kernel image only once. Then the image is cached, and rdmavm run prints no messages
// about building it.
var image sync.Once

func requireQemu(t *testing.T) {
	t.Helper()
	if why := inside.Missing(); why != "" {
		skip.Because(t, why)
	}
	image.Do(func() {
		o := rdmavm(t, nil, "image")
		require.Equal(t, 0, o.Code, o.Stderr)
	})
}

// TestCommand runs a command that prints its input, environment, working directory, limits, devices and files, and then
// kills itself. rdmavm must return all its output and end, although a background process still has the output pipe
// open. Only files in the -share folder may appear on the host.
func TestCommand(t *testing.T) {
	requireQemu(t)
	var input [300000]byte
	rand.NewChaCha8([32]byte{}).Read(input[:])
	dir, share := t.TempDir(), filepath.Join(t.TempDir(), "a,b")
	require.NoError(t, os.Mkdir(share, 0o755))
	o := rdmavm(t, func(cmd *exec.Cmd) {
		cmd.Dir, cmd.Stdin = dir, bytes.NewReader(input[:])
		cmd.Env = append(os.Environ(), "WORD=two words ")
	}, "run", "-i", "-devices", "3", "-cpus", "2", "-memlock", "64k", "-share", share, "--", "sh", "-c", `
		cat
		sleep 1000 &
		exec 3>&1 >&2
		pwd; hostname; echo "[$WORD]" "$RDMAVM" "$2"; nproc; ulimit -l
		echo $((0x$(sed -n 's/^CapEff:\t//p' /proc/self/status) >> 14 & 1))
		ls /sys/class/infiniband
		echo lost >file && cat file
		echo written >"$1/file"
		head -c 60000 /dev/zero | tr '\0' x >&3
		kill -9 $$`, "sh", share, "one\ttwo'")
	require.Equal(t, 128+int(syscall.SIGKILL), o.Code, o.Stderr)
	require.True(t, string(input[:])+strings.Repeat("x", 60000) == o.Stdout, "%d bytes came back", len(o.Stdout))
	require.Equal(t, dir+"\nrdmavm\n[two words ] 1 one\ttwo'\n2\n64\n0\nrxe0\nrxe1\nrxe2\nlost\n", o.Stderr)
	require.NoFileExists(t, filepath.Join(dir, "file"))
	text, err := os.ReadFile(filepath.Join(share, "file"))
	require.NoError(t, err)
	require.Equal(t, "written\n", string(text))
}

// TestKilled requires that the virtual machine ends if rdmavm is ended by SIGKILL or SIGTERM.
func TestKilled(t *testing.T) {
	requireQemu(t)
	for _, signal := range []os.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "rdmavm"), "run", "--", "sleep", "1000")
			require.NoError(t, cmd.Start())
			var machine string
			waitfor.Require(t, "a machine", func() bool { machine = qemuOf(t, cmd.Process.Pid); return machine != "" })
			require.True(t, isRunning(machine))
			require.NoError(t, cmd.Process.Signal(signal))
			require.Error(t, cmd.Wait())
			waitfor.Require(t, "the machine's end", func() bool { return !isRunning(machine) })
		})
	}
}

// qemuOf returns the process ID of qemu, a child of the process pid, or "" if qemu has not been started yet.
func qemuOf(t *testing.T, pid int) string {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	require.NoError(t, err)
	for _, list := range lists {
		text, _ := os.ReadFile(list) // fails for a thread that has ended
		for _, child := range strings.Fields(string(text)) {
			if name, _ := os.ReadFile("/proc/" + child + "/comm"); strings.HasPrefix(string(name), "qemu") {
				return child
			}
		}
	}
	return ""
}

// isRunning reports whether the process pid exists and is not a zombie.
func isRunning(pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(text), ") Z ")
}

func TestTimeOut(t *testing.T) {
	requireQemu(t)
	o := rdmavm(t, nil, "run", "-timeout", "1ms", "--", "true")
	require.Equal(t, 125, o.Code)
	require.Contains(t, o.Stderr, "rdmavm: no end within the time-out of 1ms")
}

// TestNoBoot boots an image whose kernel file contains no kernel. The error must include the last output of qemu and
// the guest's console.
func TestNoBoot(t *testing.T) {
	requireQemu(t)
	real := strings.TrimSpace(rdmavm(t, nil, "image").Stdout)
	cache := t.TempDir()
	dir := filepath.Join(cache, "ibrun-rdmavm", filepath.Base(filepath.Dir(real)))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "modules.cpio"), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "vmlinux"), []byte("no kernel"), 0o644))
	o := rdmavm(t, func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache) }, "run", "--", "true")
	require.Equal(t, 125, o.Code)
	require.Regexp(t, `(?s)the machine ended before the command did; the console's end:\nqemu.*kernel`, o.Stderr)
}

func TestMissingPackages(t *testing.T) {
	bare := func(cmd *exec.Cmd) { cmd.Env = []string{"PATH=/nonexistent", "XDG_CACHE_HOME=" + t.TempDir()} }
	o := rdmavm(t, bare, "image")
	require.Equal(t, 125, o.Code)
	require.Contains(t, o.Stderr,
		"apt-get, dpkg-deb, xz: not found; apt-get install -y --no-install-recommends apt dpkg xz-utils")
	requireQemu(t) // builds the image, which the next call of rdmavm needs
	o = rdmavm(t, func(cmd *exec.Cmd) { cmd.Env = []string{"PATH=/nonexistent", "HOME=" + os.Getenv("HOME")} }, "run",
		"--", "true")
	require.Equal(t, 125, o.Code)
	require.Contains(t, o.Stderr, "--no-install-recommends qemu-system-x86 iproute2")
}

func TestBadArguments(t *testing.T) {
	for _, args := range []string{"", "walk", "run", "run -devices x -- true", "run -memlock 64q -- true",
		"run -memlock -- true", "sys"} {
		o := rdmavm(t, nil, strings.Fields(args)...)
		require.Equal(t, 2, o.Code, args)
		require.Contains(t, o.Stderr, "usage: rdmavm run", args)
	}
	for args, why := range map[string]string{
		"run -devices 65 -- true":       "0 to 64",
		"run -cpus 0 -- true":           "1 to 16",
		"run -mem 1k -- true":           "-mem: at least",
		"run -share /nowhere -- true":   "/nowhere: no such file",
		"run -share /dev/null -- true":  "not a folder",
		"run -memlock 5000000T -- true": "usage",
	} {
		require.Contains(t, rdmavm(t, nil, strings.Fields(args)...).Stderr, why)
	}
}

// TestMadeUpHCA runs commands by rdmavm sys. ibrun and the programs of rdma-core must list the simulated HCA. The
// command must also see the files that the host has in /sys and /dev. The host's /sys must not change.
func TestMadeUpHCA(t *testing.T) {
	if os.Getuid() != 0 {
		skip.Because(t, "mounting needs root")
	}
	before, err := os.ReadDir("/sys/class")
	require.NoError(t, err)
	type port struct {
		State string
		Layer string `json:"link_layer"`
		LID   int
		Rate  float64 `json:"rate_gbps"`
	}
	type hca struct {
		Name  string
		NUMA  int `json:"numa_node"`
		Ports []port
	}
	type machine struct {
		HCAs       []hca
		Interfaces []map[string]any
		Packages   []map[string]any
	}
	read := func(o launch.Outcome) (m machine) {
		require.Equal(t, 0, o.Code, o.Stderr)
		require.NoError(t, json.Unmarshal([]byte(o.Stdout), &m))
		return m
	}
	show := []string{filepath.Join(bin, "ibrun"), "--display", "topo", "--json"}
	text, err := exec.Command(show[0], show[1:]...).Output()
	require.NoError(t, err)
	plain := read(launch.Outcome{Stdout: string(text)})
	made := read(rdmavm(t, nil, append([]string{"sys", "-name", "hfi1_0", "-lid", "0x3a4", "-state", "INIT", "-numa",
		"0", "-rate", "56", "--"}, show...)...))
	require.Equal(t, append([]hca{{"hfi1_0", 0, []port{{"INIT", "InfiniBand", 0x3a4, 56}}}}, plain.HCAs...), made.HCAs)
	require.Equal(t, plain.Interfaces, made.Interfaces)
	require.Equal(t, plain.Packages, made.Packages)

	o := rdmavm(t, nil, "sys", "--", "sh", "-c",
		"ls -d /sys/fs/cgroup /dev/null /dev/infiniband/uverbs0; cat /sys/class/infiniband/mlx5_0/ports/1/lid; echo "+
			"x >/dev/null; kill -9 $$")
	require.Equal(t, launch.Outcome{Code: 137, Stdout: "/dev/infiniband/uverbs0\n/dev/null\n/sys/fs/cgroup\n0x1b\n"}, o)
	if _, err := exec.LookPath("ibv_devices"); err == nil {
		require.Contains(t, rdmavm(t, nil, "sys", "--", "ibv_devices").Stdout, "mlx5_0")
	}
	after, err := os.ReadDir("/sys/class")
	require.NoError(t, err)
	require.Equal(t, len(before), len(after))
	o = rdmavm(t, nil, "sys", "-state", "SLEEPING", "--", "true")
	require.Equal(t, 125, o.Code)
	require.Contains(t, o.Stderr, "SLEEPING")
	require.Contains(t, rdmavm(t, nil, "sys", "--", "no-such-program").Stderr, "executable file not found")
}

// TestDoctorOnMadeUpHCA runs ibrun --doctor by rdmavm sys. It must report the LID of the simulated HCA, and that the
// kernel has no such device.
func TestDoctorOnMadeUpHCA(t *testing.T) {
	if os.Getuid() != 0 {
		skip.Because(t, "mounting needs root")
	}
	o := rdmavm(t, nil, "sys", "-lid", "0x3a4", "-rate", "56", "--", filepath.Join(bin, "ibrun"), "--doctor",
		"--fabric", "ib")
	require.Equal(t, 1, o.Code, o.Stderr)
	require.Regexp(t, `mlx5_0:1 ACTIVE InfiniBand 56 Gb/s LID 932\n`, o.Stdout)
	require.Contains(t, o.Stdout, ": netlink: sysfs has devices, but the kernel does not list them")
	require.NotContains(t, o.Stdout, "no RDMA device")
}
