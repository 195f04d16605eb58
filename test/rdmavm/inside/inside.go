// Package inside runs tests in a virtual machine with Soft-RoCE devices:
//
//	func TestMain(m *testing.M) { inside.Main(m, "ibrun/cmd/ibrun", "ibrun/lazy.test") }
//	func TestIt(t *testing.T)   { inside.Require(t); exec.Command(inside.Program("ibrun"), ...) }
//
// A name that ends in ".test" is the test binary of a package. Package test/ib runs those of several packages in
// one machine, because a machine takes long to boot.
//
// Main runs the test binary again in the machine. It builds the programs before, because a compiler would take
// minutes in the machine.
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

// Program returns the path of a program that was passed to Main. name is the last element of its import path.
func Program(name string) string { return filepath.Join(os.Getenv(programsVariable), name) }

// Missing returns why no machine can be booted here, or "".
func Missing() string {
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		return "qemu-system-x86_64 is missing: make test-ib installs it, as root"
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

// Main builds the programs, runs the tests of a package in a machine with the arguments of this process, and
// exits. If no machine can be booted, it runs the tests here.
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

// timeout limits the run of a machine. It is longer than the time-out of go test, which prints the goroutines of a
// test that hangs.
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
	// The machine has real devices, so it must not use the fake library of this process.
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

// Build builds programs and test binaries with the tag of the ib suite, and returns the path of their folder. The
// folder is in the user's cache, so that go does not link unchanged programs again.
func Build(programs ...string) (dir string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "ibrun-programs", "ib") + "/" // the slash tells go build that it is a folder
	words := map[string][]string{}                           // packages by how they are built
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
			env = append(env, "CGO_ENABLED=0") // static, because the guest has no libraries when it starts
		}
		cmd := exec.Command("go", append(args, packages...)...)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", cmd, err, out)
		}
	}
	return dir, nil
}
