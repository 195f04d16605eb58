//go:build mpi

// Package mpi runs programs of MPICH, Open MPI and libpmix, and programs of the C libraries in folder cgo, under ibrun.
// All agents run on this machine. Package nodes has the tests that need several nodes.
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

// whole makes the tests run all combinations. By default they run a sample, which takes less time.
var whole = flag.Bool("whole", false, "damage messages in 400 runs, not in 30; mix all dialects of PMIx")

// detectLeaks has the arguments before a program that enable the leak detection of its sanitizers. TestMain disables
// it, because it takes more time than all other checks. So tests enable it in one run for each library.
var detectLeaks = []string{"env", sanitizerOptions + "=detect_leaks=1"}

// sanitizerOptions is the name of the environment variable with the options of gcc's AddressSanitizer.
const sanitizerOptions = "ASAN_OPTIONS"

func TestMain(m *testing.M) {
	os.Setenv(sanitizerOptions, "detect_leaks=0")
	os.Exit(product.Run(m, &launch.Program))
}

// programs maps the name of each program that tests compile to a *sync.Mutex, so that it is compiled once.
var programs sync.Map

// once returns the path of the file name in the folder of ibrun. If the file does not exist yet, it calls compile.
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

// mpich returns the path of testdata/mpi.c, compiled with MPICH.
func mpich(t *testing.T) string {
	t.Helper()
	return once(t, "mpich", func(path string) { suite.MPICH(t, "testdata/mpi.c", path) })
}

// openMPI returns the path of testdata/mpi.c, compiled with this machine's Open MPI.
func openMPI(t *testing.T) string {
	t.Helper()
	require.NotNil(t, libpmi.Image(), "libpmi is missing in ibrun: run make libpmi")
	return once(t, "openmpi", func(path string) { suite.Own().MPI(t, "testdata/mpi.c", path) })
}

// compiled runs the compiler argv to make the program name, and returns the path of the program.
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

// command returns a command that runs ibrun with --timeout 100. A job that hangs then ends with a message after 100 s.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return launch.Command(t, append([]string{"--timeout", "100"}, args...)...)
}

// ibrun runs the command that command returns, waits for it, and returns its exit code and output.
func ibrun(t *testing.T, args ...string) launch.Outcome {
	t.Helper()
	return launch.Finish(t, command(t, args...))
}

// onHosts returns arguments of ibrun that start all agents on this machine, also those of hosts with other names. The
// words of options follow.
func onHosts(options string) []string {
	return append([]string{"--launcher", "local", "--iface", "lo"}, strings.Fields(options)...)
}
