//go:build cluster || soak

// Package ssh tests the real binary on nodes of a virtual cluster, over real sshd, real rsh and the rsh stand-in. Some
// tests break nodes and connections.
package ssh

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/launch"
	"ibrun/test/product"
	"ibrun/test/screen"
	"ibrun/test/skip"
	"ibrun/test/vcluster/cluster"
)

// program is the path of the ibrun that the tests run, on the front.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "100") // The function parallel sets lower limits.
	code := product.Run(m, &program)
	for _, c := range clusters {
		if err := c.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// These channels represent the two kinds of parallel tests. The capacity of a channel is the largest number of tests of
// the kind that run at the same time.
var (
	waiting = make(chan struct{}, 12) // tests that mostly wait for timeouts of ibrun
	working = make(chan struct{}, 1)  // all other tests
)

// parallel marks t as a parallel test of a kind, which is waiting or working. It blocks until fewer tests of that kind
// run than the capacity of the channel.
func parallel(t *testing.T, kind chan struct{}) {
	t.Helper()
	t.Parallel()
	kind <- struct{}{}
	t.Cleanup(func() { <-kind })
}

// clusters holds the clusters that tests share, by their number of nodes.
var clusters = map[int]*cluster.Cluster{}

// own returns a new cluster for one test. Its nodes see ibrun at the path program, so ibrun does not send them its
// binary.
func own(t *testing.T, config cluster.Config) *cluster.Cluster {
	t.Helper()
	config.Share = []string{filepath.Dir(program)}
	return cluster.Require(t, config)
}

// shared returns a cluster that several tests use one after the other. A caller must not change the nodes, and must
// either be of the kind working or not be parallel. If the test fails, the next test gets a new cluster. The nodes see
// ibrun at the path program, so ibrun does not send them its binary.
func shared(t *testing.T, nodes int) *cluster.Cluster {
	t.Helper()
	if os.Geteuid() != 0 {
		skip.Because(t, cluster.ErrNotRoot.Error())
	}
	if clusters[nodes] == nil {
		c, err := cluster.Up(context.Background(), cluster.Config{Nodes: nodes, RSH: true, Kex: cluster.TestKex,
			Share: []string{filepath.Dir(program)}})
		require.NoError(t, err)
		clusters[nodes] = c
	}
	c := clusters[nodes]
	t.Cleanup(func() {
		if t.Failed() {
			delete(clusters, nodes)
			_ = c.Close()
		}
	})
	return c
}

// outcome holds the exit code and the output of an ibrun that has ended.
type outcome struct {
	code   int
	stdout string
	stderr string // without lines about what ibrun waits for
	raw    string // all of standard error
}

// job is an ibrun that was started.
type job struct {
	cmd    *exec.Cmd
	out    screen.Screen
	err    screen.Screen
	waited chan struct{}
}

// start runs ibrun on the cluster's front. ibrun is killed after six minutes, which only ends a test that hangs.
func start(t *testing.T, c *cluster.Cluster, args ...string) *job {
	return run(t, c, append([]string{program}, args...)...)
}

// run does what start does, for any command.
func run(t *testing.T, c *cluster.Cluster, args ...string) *job {
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	t.Cleanup(cancel)
	j := &job{cmd: c.Command(ctx, args...), waited: make(chan struct{})}
	j.cmd.Stdout, j.cmd.Stderr = &j.out, &j.err
	require.NoError(t, j.cmd.Start())
	go func() {
		defer close(j.waited)
		_ = j.cmd.Wait()
	}()
	return j
}

func (j *job) wait() outcome {
	<-j.waited
	raw := j.err.String()
	return outcome{j.cmd.ProcessState.ExitCode(), j.out.String(), product.Complaints(raw), raw}
}

func ibrun(t *testing.T, c *cluster.Cluster, args ...string) outcome {
	return start(t, c, args...).wait()
}

// ours returns the processes on a node that belong to a job: agents, reapers and ranks.
func ours(t *testing.T, c *cluster.Cluster, node string) []cluster.Proc {
	all, err := c.Processes(node)
	require.NoError(t, err)
	return ofJob(all)
}

func ofJob(all []cluster.Proc) (found []cluster.Proc) {
	for _, p := range all {
		role := len(p.Argv) > 1 && (p.Argv[1] == ":reaper" || p.Argv[1] == ":agent")
		if role || strings.Join(p.Argv, " ") == "sleep 1000" {
			found = append(found, p)
		}
	}
	return found
}

// everywhere returns the number of processes of jobs on all nodes. It lists the processes of the machine only once,
// because a separate list for each node would take seconds while other tests run.
func everywhere(t *testing.T, c *cluster.Cluster) (n int) {
	all, err := c.AllProcesses()
	require.NoError(t, err)
	for _, node := range c.Nodes() {
		n += len(ofJob(all[node]))
	}
	return n
}

// await calls ok every 150 ms until it returns true. Shorter intervals would take too much CPU time, because many
// callers list all processes. After three minutes await fails the test with the text what. Some events take more than
// one minute.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !ok(); <-time.After(150 * time.Millisecond) {
		require.True(t, time.Now().Before(end), what)
	}
}

// requireNothingLeft waits until no node has a process of a job.
func requireNothingLeft(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	await(t, "nothing is left", func() bool { return everywhere(t, c) == 0 })
}

// inOwnFolder creates a folder for control sockets. It returns a function that makes a command line of ibrun from
// arguments. All these command lines use that folder, so ibrun ctl finds only the jobs that were started with them.
func inOwnFolder(t *testing.T) func(args ...string) []string {
	dir := launch.SocketFolder(t)
	return func(args ...string) []string {
		return append([]string{"env", "XDG_RUNTIME_DIR=" + dir, program}, args...)
	}
}

// example builds a program of this repository for the nodes.
func example(t *testing.T, c *cluster.Cluster, pkg string) string {
	t.Helper()
	path := filepath.Join(c.Shared(), filepath.Base(pkg))
	if _, err := os.Stat(path); err != nil { // no test on this cluster has built it
		require.NoError(t, product.Program(path, "ibrun/"+pkg))
	}
	return path
}
