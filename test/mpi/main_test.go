//go:build mpi

// Package mpi tests programs of MPICH, Open MPI and libpmix, and programs of the C libraries in the folder cgo. They
// run under ibrun, whose agents all run on this machine. Package nodes has the tests with agents on several nodes.
package mpi

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/libpmi"
	"ibrun/test/fleet/suite"
	"ibrun/test/launch"
	"ibrun/test/product"
)

// whole makes the tests run all combinations of their parameters. By default they run a sample, which takes less time.
var whole = flag.Bool("whole", false, "send damaged messages in 400 runs, not in 30; mix all PMIx versions")

// detectLeaks is put before the path of a program to enable the leak detection of AddressSanitizer. TestMain disables
// it, because it takes more time than all other checks together. Tests enable it in one run for each library.
var detectLeaks = []string{"env", sanitizerOptions + "=detect_leaks=1"}

// sanitizerOptions is the name of the environment variable with the options of gcc's AddressSanitizer.
const sanitizerOptions = "ASAN_OPTIONS"

func TestMain(m *testing.M) {
	os.Setenv(sanitizerOptions, "detect_leaks=0")
	os.Exit(product.Run(m, &launch.Program))
}

// programs maps the name of each program that is compiled to a *sync.Mutex. The mutex lets only one test compile the
// program.
var programs sync.Map

// once returns the path of the file name in the folder of ibrun. If there is no such file, once calls compile to make
// it.
func once(t *testing.T, name string, compile func(path string)) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(launch.Program), name)
	lock, _ := programs.LoadOrStore(name, &sync.Mutex{})
	lock.(*sync.Mutex).Lock()
	defer lock.(*sync.Mutex).Unlock()
	if _, err := os.Stat(path); err != nil {
		compile(path)
	}
	return path
}

// mpich compiles testdata/mpi.c with MPICH and returns the path of the program.
func mpich(t *testing.T) string {
	t.Helper()
	return once(t, "mpich", func(path string) { suite.MPICH(t, "testdata/mpi.c", path) })
}

// openMPI compiles testdata/mpi.c with this machine's Open MPI and returns the path of the program.
func openMPI(t *testing.T) string {
	t.Helper()
	require.NotNil(t, libpmi.Image(), "libpmi is missing in ibrun: run make libpmi")
	return once(t, "openmpi", func(path string) { suite.Own().MPI(t, "testdata/mpi.c", path) })
}

// compiled runs the compiler argv[0] with the arguments argv[1:], unless an earlier call has made the program name. It
// returns the path of the program.
func compiled(t *testing.T, name string, argv ...string) string {
	t.Helper()
	return once(t, name, func(path string) { suite.Compile(t, path, argv...) })
}

// pmi returns the client of PMI-1 that needs no MPI library.
func pmi(t *testing.T) string { return ours(t, "test/pmi") }

// ours returns a static program of this module.
func ours(t *testing.T, pkg string) string {
	t.Helper()
	return once(t, filepath.Base(pkg), func(path string) { require.NoError(t, product.Program(path, "ibrun/"+pkg)) })
}

// command returns a command that runs ibrun with these arguments and a time limit. If the job hangs, ibrun ends it with
// a message after 100 s.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return launch.Command(t, append([]string{"--timeout", "100"}, args...)...)
}

// ibrun runs ibrun with these arguments and a time limit of 100 s, waits for it, and returns its exit code and output.
func ibrun(t *testing.T, args ...string) launch.Outcome {
	t.Helper()
	return launch.Finish(t, command(t, args...))
}

// onHosts returns arguments of ibrun: the words of options, preceded by options that start the agents of all hosts on
// this machine. The names of the hosts can be arbitrary.
func onHosts(options string) []string {
	return append([]string{"--launcher", "local", "--iface", "lo"}, strings.Fields(options)...)
}
