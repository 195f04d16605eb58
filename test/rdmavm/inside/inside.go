// Package inside runs tests in a virtual machine with Soft-RoCE devices. A package whose tests all need
// the machine calls Main; a test that needs it for some tests of its package calls Run:
//
//	func TestMain(m *testing.M) { inside.Main(m, "ibrun/cmd/ibrun") }
//	func TestIt(t *testing.T)   { inside.Require(t); exec.Command(inside.Program("ibrun"), ...) }
//
// The machine runs the test binary that is running here. Programs are built before it boots: a compiler
// would take minutes in it.
package inside

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ibrun/cgo/verbs"
	"ibrun/internal/skip"
)

// programsVariable names the folder of the programs that were built for the machine.
const programsVariable = "RDMAVM_PROGRAMS"

// In reports whether this process runs in a machine.
func In() bool { return os.Getenv("RDMAVM") != "" }

// Program returns the path of a program that was given to Main, by the last element of its import path.
func Program(name string) string { return filepath.Join(os.Getenv(programsVariable), name) }

// Missing returns the reason that no machine can be booted here, or "".
func Missing() string {
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		return "no machine with RDMA without qemu-system-x86_64: make test-ib installs it, as root"
	}
	return ""
}

// Require skips a test of a package that calls Main if no machine can be booted.
func Require(t testing.TB) {
	t.Helper()
	if !In() {
		skip.Because(t, Missing())
	}
}

// Main runs the tests of a package in a machine, with the arguments of this process. It builds the
// programs before, and does not return.
func Main(m *testing.M, programs ...string) {
	if In() || Missing() != "" {
		os.Exit(m.Run())
	}
	code, err := run(os.Stdout, os.Stderr, programs, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// Run runs the tests of this package that match a pattern in a machine. They must pass.
func Run(t testing.TB, pattern string, args ...string) {
	t.Helper()
	if why := Missing(); why != "" {
		skip.Because(t, why)
	}
	var out bytes.Buffer
	code, err := run(&out, &out, nil, append([]string{"-test.v", "-test.run", pattern}, args...))
	if err != nil || code != 0 || !strings.Contains(out.String(), "--- PASS") {
		t.Fatalf("tests %s in the machine: exit code %d, error %v\n%s", pattern, code, err, &out)
	}
}

// timeout is longer than that of go test, which stops a test that hangs and prints its goroutines.
const timeout = "20m"

// run runs this test binary in a machine and returns its exit code.
func run(stdout, stderr io.Writer, programs, args []string) (code int, err error) {
	dir, err := os.MkdirTemp("", "rdmavm-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	if len(programs) > 0 {
		if err := build(os.Environ(), dir, programs...); err != nil {
			return 0, err
		}
	}
	// The guest has no libraries when it starts.
	vm := filepath.Join(dir, "rdmavm")
	if err := build(append(os.Environ(), "CGO_ENABLED=0"), vm, "ibrun/test/rdmavm"); err != nil {
		return 0, err
	}
	cmd := exec.Command(vm, slices.Concat([]string{"run", "-timeout", timeout, "--", self}, args)...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// A fake library of this process is not for the machine, which has real devices.
	cmd.Env = append(os.Environ(), programsVariable+"="+dir, verbs.LibraryVariable+"=")
	runtime.LockOSThread() // Pdeathsig is sent when the thread that forked ends
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

// build compiles packages with the tags of the ib suite.
func build(env []string, to string, packages ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-tags", "ib", "-o", to}, packages...)...)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %v: %w\n%s", packages, err, out)
	}
	return nil
}
