//go:build cluster || soak

package ssh

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
)

// watched is a job whose ranks print numbered lines, while agents or sessions above them are lost.
type watched struct {
	*job
	t     *testing.T
	c     *cluster.Cluster
	again int // number, from 1, of the node whose ranks have started again, or 0
}

func watch(t *testing.T, c *cluster.Cluster, args ...string) *watched {
	return &watched{job: start(t, c, args...), t: t, c: c}
}

// over reports whether the job has ended. It is killed after six minutes.
func (j *watched) over() bool {
	select {
	case <-j.waited:
		return true
	default:
		return false
	}
}

// until waits until the output of the job contains the text what. It fails the test if the job ends before that.
func (j *watched) until(what string) {
	j.t.Helper()
	for printed := false; !printed; <-time.After(5 * time.Millisecond) {
		over := j.over()
		printed = strings.Contains(j.out.String(), what)
		require.True(j.t, printed || !over, "not printed: %s\n%s\n%s", what, j.err.String(), j.out.String())
	}
}

// processes returns the ids, on the machine, of those processes on a node whose arguments the function is accepts.
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

// kill kills processes of a node at once. It stops all of them first, so that none can notice the death of another.
func (j *watched) kill(pids ...int) {
	require.NotEmpty(j.t, pids)
	for _, pid := range slices.Backward(pids) {
		require.NoError(j.t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	for _, pid := range pids {
		require.NoError(j.t, syscall.Kill(pid, syscall.SIGKILL))
	}
}

// end waits for the end of the job and checks its output. Each rank must have printed each line once and in order,
// except for the ranks of lost nodes.
func (j *watched) end(ranks, each, lines int, lost map[int]bool) {
	<-j.waited
	next := make([]int, ranks)
	for line := range strings.Lines(j.out.String()) {
		var rank, n int
		if _, err := fmt.Sscanf(line, "rank %d line %d ", &rank, &n); err != nil {
			continue
		}
		if n == 0 && rank/each == j.again-1 {
			next[rank] = 0
		}
		require.Equal(j.t, next[rank], n, "next line of rank %d\n%s", rank, j.err.String())
		next[rank]++
	}
	for rank, n := range next {
		if !lost[rank/each] {
			require.Equal(j.t, lines, n, "lines of rank %d\n%s", rank, j.err.String())
		}
	}
	requireNothingLeft(j.t, j.c)
}

var collective = regexp.MustCompile(`rank \d+: (\d+) collectives, then (.*)`)

// commonResult requires that exactly count ranks have printed a result of test/cluster/mender, and that all results are
// equal. It returns the number of collectives that succeeded, and the error of the next one or "<nil>".
func (j *watched) commonResult(count int) (joined int, why string) {
	found := collective.FindAllStringSubmatch(j.out.String(), -1)
	require.Len(j.t, found, count, j.err.String())
	for _, f := range found {
		require.Equal(j.t, found[0][1:], f[1:])
	}
	joined, err := strconv.Atoi(found[0][1])
	require.NoError(j.t, err)
	return joined, found[0][2]
}
