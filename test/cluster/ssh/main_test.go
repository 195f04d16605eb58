//go:build cluster

// Package ssh runs the real binary over real sshd, rsh and the rsh stand-in,
// on nodes of the virtual cluster, and breaks them.
package ssh

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/product"
	"ibrun/test/screen"
	"ibrun/test/vcluster/cluster"
)

// program is ibrun as it ships. It lies outside what the nodes see, so that
// they have to be sent it.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // those that are parallel wait
	os.Exit(product.Run(m, &program))
}

// outcome is what a finished ibrun showed.
type outcome struct {
	code   int
	stdout string
	stderr string // but for what it was waiting for
	raw    string // all of it
	took   time.Duration
}

// job is an ibrun that runs.
type job struct {
	cmd    *exec.Cmd
	out    screen.Screen
	err    bytes.Buffer
	began  time.Time
	waited chan struct{}
}

// start runs ibrun on the cluster's front; it is killed after two minutes.
func start(t *testing.T, c *cluster.Cluster, args ...string) *job {
	return run(t, c, append([]string{program}, args...)...)
}

// run is start for any command.
func run(t *testing.T, c *cluster.Cluster, args ...string) *job {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	j := &job{cmd: c.Command(ctx, args...), began: time.Now(), waited: make(chan struct{})}
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
	return outcome{j.cmd.ProcessState.ExitCode(), j.out.String(), product.Complaints(raw), raw, time.Since(j.began)}
}

func ibrun(t *testing.T, c *cluster.Cluster, args ...string) outcome {
	return start(t, c, args...).wait()
}

// ours are the processes on a node that belong to a job: agents, reapers, ranks.
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

// everywhere counts them on all nodes, in one look at the machine: one for each node takes seconds
// beside other tests.
func everywhere(t *testing.T, c *cluster.Cluster) (n int) {
	all, err := c.AllProcesses()
	require.NoError(t, err)
	for _, node := range c.Nodes() {
		n += len(ofJob(all[node]))
	}
	return n
}

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, within, 50*time.Millisecond, what)
}

func sum(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }
