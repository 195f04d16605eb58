// Package inside runs a test binary in a machine with Soft-RoCE, so that `go test` of a package is
// all that it takes:
//
//	func TestMain(m *testing.M) { inside.Main(m, inside.Config{Programs: []string{"ibrun/cmd/ibrun"}}) }
//	func TestIt(t *testing.T)   { inside.Require(t); exec.Command(inside.Program("ibrun"), ...) }
//
// It refuses to compile anything in the machine, where that would take minutes.
package inside

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"ibrun/internal/skip"
)

// Config says what a package's tests need.
type Config struct {
	Programs []string // packages to build before
	Options  []string // of rdmavm run
}

// programs names the folder of what was built, in the environment.
const programs = "RDMAVM_PROGRAMS"

// In reports whether this process is in a machine of rdmavm's.
func In() bool { return os.Getenv("RDMAVM") != "" }

// Program is the path of a program of Config.Programs, by its last name.
func Program(name string) string { return filepath.Join(os.Getenv(programs), name) }

// Missing says why there cannot be a machine here; empty: there can.
func Missing() string {
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		return "no machine with RDMA without qemu-system-x86_64: make test-ib installs it, as root"
	}
	return ""
}

// Require skips a test where there cannot be a machine.
func Require(t testing.TB) {
	t.Helper()
	if !In() {
		skip.Because(t, Missing())
	}
}

// Main is all that a TestMain does: it runs the tests in a machine, which gets the arguments of
// this process. It does not return.
func Main(m *testing.M, cfg Config) {
	if In() || Missing() != "" {
		os.Exit(m.Run())
	}
	Only(cfg)
}

// Only is Main for tests that mean nothing without a machine: it is an error that there is none.
func Only(cfg Config) {
	if why := Missing(); why != "" {
		fmt.Fprintln(os.Stderr, why)
		os.Exit(1)
	}
	code, err := outside(cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func outside(cfg Config) (code int, err error) {
	dir, err := os.MkdirTemp("", "rdmavm-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	if len(cfg.Programs) > 0 {
		if err := build(os.Environ(), dir, cfg.Programs...); err != nil {
			return 0, err
		}
	}
	// The guest has no libraries when it starts.
	vm := filepath.Join(dir, "rdmavm")
	if err := build(append(os.Environ(), "CGO_ENABLED=0"), vm, "ibrun/test/rdmavm"); err != nil {
		return 0, err
	}
	// go test's own time-out
	args := slices.Concat([]string{"run", "-timeout", "20m"}, cfg.Options, []string{"--", self}, os.Args[1:])
	cmd := exec.Command(vm, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), programs+"="+dir)
	runtime.LockOSThread() // Pdeathsig is sent when the thread that forked ends
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

func build(env []string, to string, packages ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-o", to}, packages...)...)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %v: %w\n%s", packages, err, out)
	}
	return nil
}
