//go:build mpi

// Package nodes runs programs of MPI and PMIx under ibrun on several nodes over ssh: Open MPI 4.1 and
// 5, a client with libpmix 4.2 and 5.0, and programs of MPICH that must not notice.
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

// lean is the tag of an ibrun whose clients of PMIx are told of the ranks of their own node only.
const lean = "lean"

func TestMain(m *testing.M) { os.Exit(product.Run(m, &launch.Program)) }

// whole selects every combination. By default the tests run a sample of them.
var whole = flag.Bool("whole", false, "all dialects of PMIx on all numbers of nodes, all programs, all ends")

// timeout ends a job that hangs, in seconds. It takes a second or two on an idle machine.
const timeout = "100"

// bed is a cluster with the programs of both suites.
type bed struct {
	*cluster.Cluster
	libraries []library
	lean      string          // ibrun built with that tag
	files     map[string]bool // on the nodes, when no job had run, or behind one that left some
	quiet     map[int]bool    // processes that belong to no job
}

// library is a suite with its programs, in the folder that all hosts share.
type library struct {
	suite.Suite
	mpi, client string
}

// All parts share one cluster and the programs on it.
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

// job is an ibrun that runs.
type job struct {
	bed            *bed
	cmd            *exec.Cmd
	stdout, stderr screen.Screen
}

// run starts a job, with ibrun's options, and returns when nothing of it is left on the nodes.
func (b *bed) run(t *testing.T, ranks, nodes int, args ...string) launch.Outcome {
	t.Helper()
	return b.begin(t, launch.Program, ranks, nodes, args...).wait(t)
}

// begin starts a job on the first nodes, as evenly as it can. Ranks are not bound: the nodes share
// this machine's CPUs, and each would bind its first rank to the same one.
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
	_ = j.cmd.Wait() // the exit code is looked at
	j.bed.nothingLeft(t)
	return launch.Outcome{
		Code: j.cmd.ProcessState.ExitCode(), Stdout: j.stdout.String(), Stderr: product.Complaints(j.stderr.String()),
	}
}

// perNode is how many ranks the first nodes have; the last one has what remains.
func perNode(ranks, nodes int) int { return (ranks + nodes - 1) / nodes }

// nothingLeft waits for the nodes to be as they were before the first job, but for ibrun's copy.
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
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // a look at all processes costs more than most jobs
		}
		return len(left) == 0
	})
	if err != nil {
		t.Errorf("left on the nodes: %q", left)
		b.files = b.Files() // the next job is not to blame
	}
}

// processes are those on all nodes.
func (b *bed) processes(t *testing.T) []cluster.Proc {
	t.Helper()
	all, err := b.AllProcesses()
	require.NoError(t, err)
	delete(all, cluster.FrontName)
	return slices.Concat(slices.Collect(maps.Values(all))...)
}

// own returns ibrun's own lines on standard error, where a rank may have been killed within a line.
func own(o launch.Outcome) (own []string) {
	for line := range strings.Lines(o.Stderr) {
		if i := strings.Index(line, "ibrun: "); i >= 0 {
			own = append(own, strings.TrimSuffix(line[i:], "\n"))
		}
	}
	return own
}
