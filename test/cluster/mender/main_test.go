//go:build cluster || soak

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/reaper"
	"ibrun/test/product"
	"ibrun/test/screen"
	"ibrun/test/vcluster/cluster"
)

// launcher is ibrun.
var launcher string

func TestMain(m *testing.M) { os.Exit(product.Run(m, &launcher)) }

// watched is a job under way, whose output is read as it comes.
type watched struct {
	t      *testing.T
	c      *cluster.Cluster
	cmd    *exec.Cmd
	stderr screen.Screen
	stdout screen.Screen
	ended  chan struct{}
	again  int // node whose ranks have started again, from 1; 0: none
}

func start(t *testing.T, c *cluster.Cluster, args ...string) *watched {
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	t.Cleanup(cancel)
	j := &watched{t: t, c: c, cmd: c.Command(ctx, append([]string{launcher}, args...)...), ended: make(chan struct{})}
	j.cmd.Stdout, j.cmd.Stderr = &j.stdout, &j.stderr
	require.NoError(t, j.cmd.Start())
	go func() {
		_ = j.cmd.Wait()
		close(j.ended)
	}()
	return j
}

// over reports whether the job, which is killed after six minutes, has ended.
func (j *watched) over() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

// until waits for something that the job prints, and no longer than the job lasts.
func (j *watched) until(what string) {
	j.t.Helper()
	for printed := false; !printed; <-time.After(5 * time.Millisecond) {
		over := j.over()
		printed = strings.Contains(j.stdout.String(), what)
		require.True(j.t, printed || !over, "not printed: %s\n%s\n%s", what, j.stderr.String(), j.stdout.String())
	}
}

// agents are the processes of a role on a node.
func (j *watched) processes(node string, is func(argv []string) bool) (pids []int) {
	all, err := j.c.AllProcesses()
	require.NoError(j.t, err)
	for _, p := range all[node] {
		if is(p.Argv) {
			pids = append(pids, p.Pid)
		}
	}
	return pids
}

func role(name string) func([]string) bool {
	return func(argv []string) bool { return len(argv) > 1 && argv[1] == name }
}

// kill kills processes of a node in the same instant: none sees that another is gone before it is killed itself.
func (j *watched) kill(pids ...int) {
	require.NotEmpty(j.t, pids)
	for _, pid := range slices.Backward(pids) {
		require.NoError(j.t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	for _, pid := range pids {
		require.NoError(j.t, syscall.Kill(pid, syscall.SIGKILL))
	}
}

// end waits for the job's end and holds its output against what the ranks print: of all ranks but
// those of the lost nodes each line once, in order.
func (j *watched) end(ranks, each, lines int, lost map[int]bool) {
	<-j.ended
	next := make([]int, ranks)
	for line := range strings.Lines(j.stdout.String()) {
		var rank, n int
		if _, err := fmt.Sscanf(line, "rank %d line %d ", &rank, &n); err != nil {
			continue
		}
		if n == 0 && rank/each == j.again-1 {
			next[rank] = 0
		}
		require.Equal(j.t, next[rank], n, "of rank %d\n%s", rank, j.stderr.String())
		next[rank]++
	}
	for rank, n := range next {
		if !lost[rank/each] {
			require.Equal(j.t, lines, n, "lines of rank %d\n%s", rank, j.stderr.String())
		}
	}
	left := func() (found int) {
		all, err := j.c.AllProcesses()
		require.NoError(j.t, err)
		for _, node := range j.c.Nodes() {
			for _, p := range all[node] {
				if role(reaper.Agent)(p.Argv) || role(reaper.Role)(p.Argv) {
					found++
				}
			}
		}
		return found
	}
	for end := time.Now().Add(time.Minute); left() > 0; <-time.After(50 * time.Millisecond) { // a look costs much
		require.True(j.t, time.Now().Before(end), "agents are left")
	}
}

var collective = regexp.MustCompile(`rank \d+: (\d+) collectives, then (.*)`)

// same returns how many collectives all ranks have joined that could tell, and what ended them.
func (j *watched) same(tell int) (joined int, why string) {
	found := collective.FindAllStringSubmatch(j.stdout.String(), -1)
	require.Len(j.t, found, tell, j.stderr.String())
	for _, f := range found {
		require.Equal(j.t, found[0][1:], f[1:])
	}
	joined, err := strconv.Atoi(found[0][1])
	require.NoError(j.t, err)
	return joined, found[0][2]
}

func mender(t *testing.T, nodes int) (c *cluster.Cluster, program string) {
	c = cluster.Require(t, cluster.Config{Nodes: nodes})
	program = filepath.Join(c.Shared(), "mender")
	require.NoError(t, product.Program(program, "ibrun/test/cluster/mender"))
	return c, program
}
