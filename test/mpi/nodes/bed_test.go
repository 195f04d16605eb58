//go:build mpi

// Package nodes runs programs of MPI and PMIx under ibrun on several nodes over ssh: of Open MPI 4.1 and 5, a client
// with libpmix 4.2 and 5.0, and of MPICH.
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

// lean is the build tag of an ibrun that tells clients of PMIx only about the ranks of their own node.
const lean = "lean"

func TestMain(m *testing.M) { os.Exit(product.Run(m, &launch.Program)) }

// whole selects every combination. By default the tests run a sample of them.
var whole = flag.Bool("whole", false, "run all dialects of PMIx on all numbers of nodes, all programs and all ends")

// timeout ends a job that hangs, in seconds. On an idle machine a job takes a second or two.
const timeout = "100"

// bed is a cluster with the programs of both suites.
type bed struct {
	*cluster.Cluster
	libraries []library
	lean      string          // an ibrun with that tag
	files     map[string]bool // files on the nodes before the first job, or after a job that left some
	quiet     map[int]bool    // processes before the first job
}

// library is a suite with its programs, in the folder that all hosts share.
type library struct {
	suite.Suite
	mpi, client string
}

// TestNodes runs all subtests of this package on one cluster with the same programs.
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

// run runs a job to its end, and returns when nothing of it is left on the nodes.
func (b *bed) run(t *testing.T, ranks, nodes int, args ...string) launch.Outcome {
	t.Helper()
	return b.begin(t, launch.Program, ranks, nodes, args...).wait(t)
}

// begin starts a job with as many ranks on each of the first nodes as possible. Ranks are not bound, because the nodes
// share this machine's CPUs, and each would bind its first rank to the same CPU.
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
	_ = j.cmd.Wait() // the exit code is in the outcome
	j.bed.nothingLeft(t)
	return launch.Outcome{
		Code: j.cmd.ProcessState.ExitCode(), Stdout: j.stdout.String(), Stderr: product.Complaints(j.stderr.String()),
	}
}

// perNode returns the number of ranks of each node. The last node has the rest.
func perNode(ranks, nodes int) int { return (ranks + nodes - 1) / nodes }

// nothingLeft waits until the nodes have the same files and processes as before the first job, except for the copy of
// ibrun.
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
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // reading all processes costs more than most jobs
		}
		return len(left) == 0
	})
	if err != nil {
		t.Errorf("left on the nodes: %q", left)
		b.files = b.Files() // the next job must not fail for the same files
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

// own returns the lines of ibrun on standard error. Such a line may follow the text of a rank that was killed before
// the end of its line.
func own(o launch.Outcome) (own []string) {
	for line := range strings.Lines(o.Stderr) {
		if i := strings.Index(line, "ibrun: "); i >= 0 {
			own = append(own, strings.TrimSuffix(line[i:], "\n"))
		}
	}
	return own
}
