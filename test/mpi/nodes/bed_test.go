//go:build mpi

// Package nodes runs programs of MPICH, of Open MPI 4.1 and 5, and of libpmix 4.2 and 5.0 under ibrun, which starts its
// agents on the nodes of a virtual cluster over ssh.
package nodes

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/fleet/suite"
	"ibrun/test/launch"
	"ibrun/test/product"
	"ibrun/test/screen"
	"ibrun/test/vcluster/cluster"
	"ibrun/test/waitfor"
)

// lean is the build tag of an ibrun that gives clients of PMIx information only about the ranks of their own node.
const lean = "lean"

func TestMain(m *testing.M) { os.Exit(product.Run(m, &launch.Program)) }

// whole makes the tests run all combinations. By default they run a sample, which takes less time.
var whole = flag.Bool("whole", false, "run all dialects of PMIx, numbers of nodes, programs and failures")

// timeout is the time in seconds after which ibrun ends a job that hangs. On an idle machine a job takes 1 to 2 s.
const timeout = "100"

// bed is a virtual cluster with the compiled programs of both suites.
type bed struct {
	*cluster.Cluster
	libraries []library
	lean      string          // path of an ibrun with the build tag lean
	files     map[string]bool // files on the nodes before the first job, and files that earlier jobs left
	quiet     map[int]bool    // process IDs on the nodes before the first job
}

// library is a suite with the paths of mpi.c and pmixclient.c, compiled with the libraries of this suite.
type library struct {
	suite.Suite
	mpi, client string
}

// TestNodes runs the subtests of this package on one cluster, so that programs are compiled only once.
func TestNodes(t *testing.T) {
	newer := suite.Newer(t)
	b := &bed{Cluster: cluster.Require(t, cluster.Config{Nodes: 4, Share: newer.Folders()}), quiet: map[int]bool{}}
	for _, s := range []suite.Suite{newer, suite.Own()} {
		b.libraries = append(b.libraries, library{
			Suite:  s,
			mpi:    s.MPI(t, "../testdata/mpi.c", filepath.Join(b.Shared(), s.Name+"-mpi")),
			client: s.PMIx(t, "../testdata/pmixclient.c", filepath.Join(b.Shared(), s.Name+"-client")),
		})
	}
	b.lean = filepath.Join(t.TempDir(), "ibrun")
	require.NoError(t, product.Build(b.lean, lean))
	b.files = b.Files()
	for _, p := range b.processes(t) {
		b.quiet[p.Pid] = true
	}
	for _, l := range b.libraries {
		t.Run(l.Name, func(t *testing.T) {
			t.Run("programs", func(t *testing.T) { b.programs(t, l) })
			t.Run("client", func(t *testing.T) { b.client(t, l) })
			t.Run("falls", func(t *testing.T) { b.falls(t, l) })
			t.Run("agent", func(t *testing.T) { b.agent(t, l) })
		})
	}
	t.Run("keep going", b.keepGoing)
	t.Run("others", b.others)
	t.Run("MPICH", b.mpich)
	t.Run("UCX", func(t *testing.T) { b.openMPIOverUCX(t, b.libraries[1].mpi) })
}

// job is a running ibrun.
type job struct {
	bed            *bed
	cmd            *exec.Cmd
	stdout, stderr screen.Screen
}

// run runs a job as begin does, and waits for it. The test fails if the job leaves files or processes on the nodes.
func (b *bed) run(t *testing.T, ranks, nodes int, args ...string) launch.Outcome {
	t.Helper()
	return b.begin(t, launch.Program, ranks, nodes, args...).wait(t)
}

// begin starts a job of ranks on the first nodes of the cluster. Each node gets perNode ranks, and the last one the
// rest. Ranks are not bound to CPUs: the nodes share the CPUs of this machine, so all of them would bind their first
// rank to the same CPU.
func (b *bed) begin(t *testing.T, ibrun string, ranks, nodes int, args ...string) *job {
	t.Helper()
	hosts := fmt.Sprintf("node[0001-%04d]:%d", nodes, perNode(ranks, nodes))
	argv := []string{ibrun, "-n", fmt.Sprint(ranks), "--hosts", hosts, "--bind-to", "none", "--timeout", timeout}
	j := &job{bed: b, cmd: b.Command(t.Context(), append(argv, args...)...)}
	j.cmd.Stdout, j.cmd.Stderr = &j.stdout, &j.stderr
	require.NoError(t, j.cmd.Start())
	return j
}

func (j *job) wait(t *testing.T) launch.Outcome {
	t.Helper()
	_ = j.cmd.Wait() // the caller checks the exit code
	j.bed.nothingLeft(t)
	return launch.Outcome{
		Code: j.cmd.ProcessState.ExitCode(), Stdout: j.stdout.String(), Stderr: product.Complaints(j.stderr.String()),
	}
}

// perNode returns the number of ranks on each node but the last, which has the rest.
func perNode(ranks, nodes int) int { return (ranks + nodes - 1) / nodes }

// nothingLeft waits until the nodes have the same files and processes as before the first job, except for the copies of
// ibrun that agents are started from. The test fails if that takes too long.
func (b *bed) nothingLeft(t *testing.T) {
	t.Helper()
	var left []string
	err := waitfor.True(func() bool {
		left = b.Litter(b.files)
		for _, p := range b.processes(t) {
			if !b.quiet[p.Pid] {
				left = append(left, p.String())
			}
		}
		if len(left) > 0 {
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // listing all processes takes more CPU time than most jobs
		}
		return len(left) == 0
	})
	if err != nil {
		t.Errorf("left on the nodes: %q", left)
		b.files = b.Files() // so that the next job does not fail because of the same files
	}
}

// processes returns the processes on all nodes.
func (b *bed) processes(t *testing.T) []cluster.Proc {
	t.Helper()
	all, err := b.AllProcesses()
	require.NoError(t, err)
	delete(all, cluster.FrontName)
	return slices.Concat(slices.Collect(maps.Values(all))...)
}

// own returns the lines that ibrun itself has printed on standard error. If a rank is killed before it ends its line, a
// line of ibrun does not start at the beginning of a line.
func own(o launch.Outcome) (own []string) {
	for line := range strings.Lines(o.Stderr) {
		if i := strings.Index(line, "ibrun: "); i >= 0 {
			own = append(own, strings.TrimSuffix(line[i:], "\n"))
		}
	}
	return own
}
