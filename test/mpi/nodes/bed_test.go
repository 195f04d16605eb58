//go:build mpi

// Package nodes tests programs of MPICH, Open MPI 4.1 and 5, and libpmix 4.2 and 5.0 on several nodes. ibrun starts its
// agents over ssh on the nodes of a virtual cluster.
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

// lean is a build tag of ibrun. An ibrun with this tag gives PMIx clients information only about the ranks of their own
// node.
const lean = "lean"

func TestMain(m *testing.M) { os.Exit(product.Run(m, &launch.Program)) }

// whole makes the tests run all combinations of their parameters. By default they run a sample, which takes less time.
var whole = flag.Bool("whole", false, "run each program with all PMIx versions, numbers of nodes and failures")

// timeout is the value of --timeout in seconds: ibrun ends a job that takes longer. On an idle machine a job takes 1 to
// 2 s.
const timeout = "100"

// bed is a virtual cluster on which the subtests run jobs.
type bed struct {
	*cluster.Cluster
	libraries []library       // programs of Debian 13 (index 0) and of this machine (index 1)
	lean      string          // path of an ibrun that was built with the tag lean
	files     map[string]bool // files from before the first job, and files that were reported as left
	oldPIDs   map[int]bool    // process IDs on the nodes before the first job
}

// library holds the paths of mpi.c and pmixclient.c, compiled with the MPI library and the libpmix of a Debian release.
type library struct {
	suite.Suite
	mpi, client string
}

// TestNodes runs all subtests of this package on the same cluster, so that the cluster starts and the programs are
// compiled only once.
func TestNodes(t *testing.T) {
	newer := suite.Newer(t)
	b := &bed{Cluster: cluster.Require(t, cluster.Config{Nodes: 4, Share: newer.Folders()}), oldPIDs: map[int]bool{}}
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
		b.oldPIDs[p.Pid] = true
	}
	for _, l := range b.libraries {
		t.Run(l.Name, func(t *testing.T) {
			t.Run("programs", func(t *testing.T) { b.programs(t, l) })
			t.Run("client", func(t *testing.T) { b.client(t, l) })
			t.Run("falls", func(t *testing.T) { b.rankFailures(t, l) })
			t.Run("agent", func(t *testing.T) { b.agentFailure(t, l) })
		})
	}
	t.Run("keep going", b.keepGoing)
	t.Run("others", b.pmiPrograms)
	t.Run("MPICH", b.mpich)
	t.Run("UCX", func(t *testing.T) { b.openMPIOverUCX(t, b.libraries[1].mpi) })
}

// job is a running ibrun.
type job struct {
	bed            *bed
	cmd            *exec.Cmd
	stdout, stderr screen.Screen
}

// run starts a job with begin, waits until it ends, and returns its exit code and output. The test fails if the job
// leaves files or processes on the nodes.
func (b *bed) run(t *testing.T, ranks, nodes int, args ...string) launch.Outcome {
	t.Helper()
	return b.begin(t, launch.Program, ranks, nodes, args...).wait(t)
}

// begin starts a job on the first nodes of the cluster, and does not wait for it. Each node gets perNode(ranks, nodes)
// ranks, and the last node the remaining ones. Ranks are not bound to CPUs: all nodes have the same CPUs, so the first
// rank of each node would be bound to the same CPU.
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
	j.bed.requireClean(t)
	return launch.Outcome{
		Code: j.cmd.ProcessState.ExitCode(), Stdout: j.stdout.String(), Stderr: product.Complaints(j.stderr.String()),
	}
}

// perNode returns the number of ranks on each node except the last one, which has the remaining ranks.
func perNode(ranks, nodes int) int { return (ranks + nodes - 1) / nodes }

// requireClean waits until all files and processes of the last job have disappeared from the nodes. It ignores the
// copies of ibrun that later jobs can use. The test fails if something is left after the usual time limit of package
// waitfor.
func (b *bed) requireClean(t *testing.T) {
	t.Helper()
	var left []string
	err := waitfor.True(func() bool {
		left = b.Litter(b.files)
		for _, p := range b.processes(t) {
			if !b.oldPIDs[p.Pid] {
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
		b.files = b.Files() // report these files only once
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

// ibrunLines returns the messages that ibrun itself has printed on standard error, without line ends. A message need
// not begin a line of o.Stderr: it can follow an incomplete line of a rank that was killed.
func ibrunLines(o launch.Outcome) (own []string) {
	for line := range strings.Lines(o.Stderr) {
		if i := strings.Index(line, "ibrun: "); i >= 0 {
			own = append(own, strings.TrimSuffix(line[i:], "\n"))
		}
	}
	return own
}
