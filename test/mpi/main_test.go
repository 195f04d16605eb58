//go:build mpi

// Package mpi runs programs of MPICH, Open MPI and libpmix, and programs with the C libraries of cgo,
// under the real binary with local agents. Package nodes has those that need several machines.
package mpi

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/libpmi"
	"ibrun/internal/waitfor"
	"ibrun/test/fleet/suite"
	"ibrun/test/product"
	"ibrun/test/screen"
)

// program is ibrun as it ships. What tests compile lies beside it.
var program string

// whole selects every combination. By default the tests run a sample of them.
var whole = flag.Bool("whole", false, "all random answers, and all dialects of PMIx in all orders")

func TestMain(m *testing.M) { os.Exit(product.Run(m, &program)) }

// programs has a lock for each program that tests have compiled.
var programs sync.Map

// once returns the path of a program beside ibrun, which the first call has made.
func once(t *testing.T, name string, compile func(path string)) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(program), name)
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
	require.NotNil(t, libpmi.Image(), "make libpmi puts it where the binary takes it from")
	return once(t, "openmpi", func(path string) { suite.Own().MPI(t, "testdata/mpi.c", path) })
}

// compiled returns a program that a compiler makes of its arguments.
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

// outcome is what a finished ibrun has left.
type outcome struct {
	code   int
	stdout string
	stderr string // without the lines in which ibrun says what it waits for
}

// command returns an ibrun that is killed when the test ends.
func command(t *testing.T, args ...string) *exec.Cmd {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, program, append([]string{"--timeout", "100"}, args...)...)
	c.Dir = t.TempDir()
	return c
}

func finish(t *testing.T, c *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if c.ProcessState == nil {
		require.NoError(t, err)
	}
	return outcome{c.ProcessState.ExitCode(), stdout.String(), product.Complaints(stderr.String())}
}

func ibrun(t *testing.T, args ...string) outcome {
	t.Helper()
	return finish(t, command(t, args...))
}

// running is a job that can be asked.
type running struct {
	t        *testing.T
	cmd      *exec.Cmd
	env      []string
	out, err screen.Screen
}

// controlled starts a job whose control socket is in a folder of this test alone.
func controlled(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{t: t, cmd: command(t, args...), env: append(os.Environ(), "XDG_RUNTIME_DIR="+socketFolder(t))}
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = r.env, &r.out, &r.err
	require.NoError(t, r.cmd.Start())
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
	})
	return r
}

// socketFolder returns a new folder with a short path: that of a socket has 107 bytes at most.
func socketFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// ends waits for the end of the job and returns its exit code.
func (r *running) ends() int {
	_ = r.cmd.Wait()
	return r.cmd.ProcessState.ExitCode()
}

// ctl asks the job.
func (r *running) ctl(args ...string) outcome {
	c := exec.CommandContext(r.t.Context(), program, append([]string{"ctl"}, args...)...)
	c.Env = r.env
	return finish(r.t, c)
}

// until asks the job until its answer matches a pattern.
func (r *running) until(pattern string, args ...string) (answer string) {
	r.t.Helper()
	found := regexp.MustCompile(pattern)
	waitfor.Require(r.t, fmt.Sprintf("ctl %v: %s", args, pattern), func() bool {
		answer = r.ctl(args...).stdout
		return found.MatchString(answer)
	})
	return answer
}

// end ends the job.
func (r *running) end() {
	r.t.Helper()
	require.Equal(r.t, 0, r.ctl("end").code)
	require.Equal(r.t, 143, r.ends(), r.err.String())
}

// sleepers starts a job of three nodes in a chain with two ranks each that runs until it is ended.
func sleepers(t *testing.T) *running {
	t.Helper()
	r := controlled(t, "--launcher", "local", "--tree", "chain", "--hosts", "a:2,b:2,c:2", "--bind-to", "none", "sh",
		"-c", "echo up; exec sleep 1000")
	r.until("6 ranks: runs", "status")
	return r
}

// onHosts are options for local agents, a space between words.
func onHosts(options string) []string {
	return append([]string{"--launcher", "local", "--iface", "lo"}, strings.Fields(options)...)
}

// sorted returns the lines of a text in order.
func sorted(text string) []string {
	return slices.Sorted(strings.SplitSeq(strings.TrimSpace(text), "\n"))
}
