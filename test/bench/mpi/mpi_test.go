package mpi

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
	"time"

	"ibrun/internal/waitfor"

	"github.com/stretchr/testify/require"
)

// Jobs whose output is not that of all ranks are left out, and one that hangs is ended.
func TestCompare(t *testing.T) {
	well := &way{argv: []string{"echo", "of 1: hello"}}
	hangs := &way{argv: []string{"sh", "-c", "sleep 600"}}
	count := func(out []byte, took time.Duration) (float64, bool) { return 2, bytes.Contains(out, []byte("hello")) }
	fails := &way{argv: []string{"false"}}
	require.NoError(t, compare(2, waitfor.Deadline, well, fails, count))
	require.Equal(t, []float64{2, 2}, well.seconds)
	require.Empty(t, fails.seconds)
	_, _, err := hangs.run(50 * time.Millisecond)
	require.Error(t, err)
	require.Error(t, compare(1, waitfor.Deadline, well, &way{argv: []string{"no-such-launcher"}}, count))
}

func TestErrorsHaveWhatTheJobPrinted(t *testing.T) {
	w := &way{name: "some", argv: []string{"sh", "-c", "echo why >&2; exit 3"}}
	_, _, err := w.run(waitfor.Deadline)
	require.EqualError(t, err, "some: exit status 3: why\n")
}

func TestSizes(t *testing.T) {
	for _, bad := range [][]string{{"0", "1", "1"}, {"1", "x", "1"}, {"1", "1", "-1"}} {
		require.Error(t, onCluster(built, bad, func(job) error { return nil }), bad)
	}
	require.NoError(t, onCluster("/opt/ibrun", []string{"2", "16", "1"}, func(j job) error {
		require.Equal(t, []string{"/opt/ibrun", "-n", "32", "-f", j.hydra, "a"}, j.underIbrun("a"))
		return nil
	}))
}

// The agent is found below the process that it descends from, and below no other.
func TestAgentBelow(t *testing.T) {
	agent := exec.Command("sh", "-c", "read -r _", ":agent")
	order, err := agent.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, agent.Start())
	found, err := agentBelow(os.Getpid())
	require.NoError(t, err)
	require.Equal(t, agent.Process.Pid, found)
	_, err = agentBelow(1 << 30)
	require.EqualError(t, err, "no agent found")
	require.NoError(t, order.Close())
	require.ErrorContains(t, agent.Wait(), "exit status 1")
}

func TestMean(t *testing.T) {
	require.Zero(t, mean(nil))
	require.Equal(t, 2.0, mean([]float64{1, 3}))
}

// Where ranks share CPUs, MPICH that polls makes fewer steps, and as many where it yields.
func TestCrowdedRivals(t *testing.T) {
	steps := map[string]int{}
	for _, r := range crowded("self", "mpich", "openmpi") {
		steps[r.name] = r.steps(10)
	}
	require.Equal(t, map[string]int{"ibrun": 10, "MPICH": 2, "MPICH, yielding": 10, "Open MPI": 10}, steps)
	for _, r := range rivals("self", "mpich", "openmpi") {
		require.NotContains(t, r.argv, "-yield", r.name)
		require.Equal(t, 10, r.steps(10), r.name)
	}
}
