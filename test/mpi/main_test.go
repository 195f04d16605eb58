//go:build mpi

// Package mpi runs programs of MPICH, Open MPI and libpmix, and programs with the C libraries of cgo, under ibrun with
// local agents. Package nodes has the tests that need several machines.
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

// whole selects every combination. By default the tests run a sample of them.
var whole = flag.Bool("whole", false, "run 400 damaged messages, not 30, and all combinations of dialects of PMIx")

// leaks has the words before a program that make its sanitizers look for memory leaks. That takes more time than all
// their other checks, so tests do it once for each library.
var leaks = []string{"env", sanitizerOptions + "=detect_leaks=1"}

// sanitizerOptions is the environment variable with the options of gcc's sanitizers.
const sanitizerOptions = "ASAN_OPTIONS"

func TestMain(m *testing.M) {
	os.Setenv(sanitizerOptions, "detect_leaks=0")
	os.Exit(product.Run(m, &launch.Program))
}

// programs has a lock for each program that tests compile.
var programs sync.Map

// once returns the path of a program in the folder of ibrun. The first call with a name compiles it.
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

// mpich returns testdata/mpi.c as a program of MPICH.
func mpich(t *testing.T) string {
	t.Helper()
	return once(t, "mpich", func(path string) { suite.MPICH(t, "testdata/mpi.c", path) })
}

// openMPI returns testdata/mpi.c as a program of Open MPI.
func openMPI(t *testing.T) string {
	t.Helper()
	require.NotNil(t, libpmi.Image(), "make libpmi builds the library that ibrun embeds")
	return once(t, "openmpi", func(path string) { suite.Own().MPI(t, "testdata/mpi.c", path) })
}

// compiled returns a program that a compiler links from its arguments.
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

// command returns a command that runs ibrun with a time-out, so that a job that hangs ends with a message.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return launch.Command(t, append([]string{"--timeout", "100"}, args...)...)
}

// ibrun runs ibrun with that time-out to its end.
func ibrun(t *testing.T, args ...string) launch.Outcome {
	t.Helper()
	return launch.Finish(t, command(t, args...))
}

// onHosts returns the arguments for local agents, followed by options that are separated by spaces.
func onHosts(options string) []string {
	return append([]string{"--launcher", "local", "--iface", "lo"}, strings.Fields(options)...)
}
