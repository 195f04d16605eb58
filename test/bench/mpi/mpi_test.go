package mpi

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/bench/figure"
	"ibrun/test/waitfor"
)

// TestCompareLeavesJobsOut requires that compare does not count a job whose output lacks the line of a rank, and that
// it returns an error if a launcher is not installed.
func TestCompareLeavesJobsOut(t *testing.T) {
	j := job{Job: &figure.Job{Ranks: 1}, ranks: "1"}
	counted := func(values []float64) float64 { return float64(len(values)) }
	ratio, err := compare("it", 2, waitfor.Deadline, j.greeted("hello"), counted, []string{"echo", "of 1: hello"},
		"other", []string{"sh", "-c", `[ -e "$0" ] || { echo "of 1: hello"; : >"$0"; }`, t.TempDir() + "/once"})
	require.NoError(t, err)
	require.Equal(t, 2.0, ratio)
	_, err = compare("it", 1, waitfor.Deadline, j.greeted("hello"), counted, []string{"no-such-launcher"}, "other", nil)
	require.ErrorContains(t, err, "no-such-launcher")
}

// TestAgentIsFoundBelowAProcess requires that agentBelow finds an agent among the descendants of a process, and returns
// an error if there is no agent.
func TestAgentIsFoundBelowAProcess(t *testing.T) {
	agent := exec.Command("sh", "-c", "read -r _", ":agent")
	order, err := agent.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, agent.Start())
	var found int
	waitfor.Require(t, "/proc shows the arguments of the agent", func() bool {
		found, err = agentBelow(os.Getpid())
		return err == nil
	})
	require.Equal(t, agent.Process.Pid, found)
	_, err = agentBelow(1 << 30)
	require.EqualError(t, err, "no agent found")
	require.NoError(t, order.Close())
	require.ErrorContains(t, agent.Wait(), "exit status 1")
}
