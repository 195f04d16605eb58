// Package inside runs tests in a virtual machine with Soft-RoCE devices:
//
//	func TestMain(m *testing.M) { inside.Main(m, "ibrun/cmd/ibrun", "ibrun/lazy.test") }
//	func TestIt(t *testing.T)   { inside.Require(t); exec.Command(inside.Program("ibrun"), ...) }
//
// A program that ends in ".test" is the test binary of a package. Package test/ib runs all of these in one
// machine, since a machine takes long to boot.
//
// The machine runs the test binary that is running here. Programs are built before it boots: a compiler
// would take minutes in it.
package inside

import (
	"errors"
	"fmt"
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
	code, err := run(programs, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// timeout is longer than that of go test, which stops a test that hangs and prints its goroutines.
const timeout = "20m"

// run runs this test binary in a machine and returns its exit code.
func run(programs, args []string) (code int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	dir, err := Build(append(programs, Machine)...)
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(filepath.Join(dir, filepath.Base(Machine)),
		slices.Concat([]string{"run", "-timeout", timeout, "--", self}, args)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
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

// Machine is the program that boots the machine.
const Machine = "ibrun/test/rdmavm"

// Build builds programs and test binaries with the tag of the ib suite, and returns the path of their folder. It is
// one of the user's cache: what has not changed since is not linked again.
func Build(programs ...string) (dir string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "ibrun-programs", "ib") + "/" // of which go build knows that it is a folder
	words := map[string][]string{}                           // of go, by its verb
	for _, p := range programs {
		verb := "build"
		if pkg, isTest := strings.CutSuffix(p, ".test"); isTest {
			p, verb = pkg, "test"
		}
		if p == Machine {
			verb = "machine"
		}
		words[verb] = append(words[verb], p)
	}
	for verb, packages := range words {
		env := os.Environ()
		args := []string{"build", "-tags", "ib", "-o", dir}
		switch verb {
		case "test":
			args = []string{"test", "-c", "-vet=off", "-tags", "ib", "-o", dir}
		case "machine":
			env = append(env, "CGO_ENABLED=0") // the guest has no libraries when it starts
		}
		cmd := exec.Command("go", append(args, packages...)...)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", cmd, err, out)
		}
	}
	return dir, nil
}
