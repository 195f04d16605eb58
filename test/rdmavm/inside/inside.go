// Package inside runs tests in a virtual machine with Soft-RoCE devices:
//
//	func TestMain(m *testing.M) { inside.Main(m, "ibrun/cmd/ibrun", "ibrun/lazy.test") }
//	func TestIt(t *testing.T)   { inside.Require(t); exec.Command(inside.Program("ibrun"), ...) }
//
// The arguments of Main are the import paths of programs that the tests use. A path with the suffix ".test" stands for
// the test binary of a package. With such paths test/ib runs the tests of several packages in one virtual machine,
// because booting takes seconds.
//
// Main builds the programs on the host, where the compiler is much faster than in the virtual machine. Then it boots a
// virtual machine, runs this test binary in it, and exits with the exit code of the test binary.
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
	"ibrun/test/skip"
)

// programsVariable is the name of the environment variable that has the path of the folder with the programs.
const programsVariable = "RDMAVM_PROGRAMS"

// In reports whether this process runs in a virtual machine that rdmavm has booted.
func In() bool { return os.Getenv("RDMAVM") != "" }

// Program returns the path of a program that Main has built. name is the last element of the program's import path.
func Program(name string) string { return filepath.Join(os.Getenv(programsVariable), name) }

// Missing returns a message if qemu, which boots the virtual machine, is not installed on this host, and "" otherwise.
func Missing() string {
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		return "qemu-system-x86_64 is missing: make test-ib installs it, as root"
	}
	return ""
}

// Require skips the test if the process does not run in a virtual machine. This happens only if Missing returns a
// message, because otherwise Main has booted a virtual machine. TestMain of the package must call Main.
func Require(t testing.TB) {
	t.Helper()
	if !In() {
		skip.Because(t, Missing())
	}
}

// Main builds the programs, runs this test binary with the same arguments in a virtual machine, and exits. If Missing
// returns a message, Main runs the tests on the host, where Require skips them.
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

// timeout limits the time of the virtual machine. It is longer than the default time limit of go test, 10 minutes. So
// if a test hangs, package testing ends it and prints its goroutines before the machine is ended.
const timeout = "20m"

// run builds the programs, runs this test binary with args in a virtual machine, and returns its exit code.
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
	// The environment of this process may select a fake libibverbs. Unset it, because the tests must use Soft-RoCE.
	cmd.Env = append(os.Environ(), programsVariable+"="+dir, verbs.LibraryVariable+"=")
	runtime.LockOSThread() // the kernel sends Pdeathsig when this thread ends
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

// Machine is the import path of the program rdmavm, which boots the virtual machine.
const Machine = "ibrun/test/rdmavm"

// Build builds the programs with the build tag ib and returns the path of the folder that contains them. programs are
// import paths as in Main. The folder is in the user's cache directory, so that go does not link unchanged programs
// again.
func Build(programs ...string) (dir string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "ibrun-programs", "ib") + "/" // the slash tells go build that it is a folder
	words := map[string][]string{}                           // import paths of the programs for each build command
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
