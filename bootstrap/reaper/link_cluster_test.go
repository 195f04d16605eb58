//go:build cluster

package reaper_test

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/reaper"
	"ibrun/test/waitfor"
)

// TestLinkLost ends the link to an agent. A stopped agent cannot notice that, so its reaper must kill it and all
// processes below it. A running agent is given the time to end them itself.
func TestLinkLost(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, start func(string, int) *reaped) {
		t.Parallel()
		g := start("leave", 0)
		left, err := strconv.Atoi(g.line(t))
		require.NoError(t, err)
		agent := g.agent(t)
		stop(t, agent)
		closed := time.Now()
		require.NoError(t, g.in.Close())
		require.NoError(t, syscall.Kill(g.cmd.Process.Pid, syscall.SIGHUP)) // as a server of rsh sends it then
		waitfor.Require(t, "one of them has ended", func() bool { return gone(agent) || gone(left) })
		require.Greater(t, time.Since(closed), reaper.LinkPatience-2*time.Second)
		waitfor.Require(t, "both have ended", func() bool { return gone(agent) && gone(left) })
		require.Error(t, g.cmd.Wait())
		require.Equal(t, 128+int(syscall.SIGKILL), g.cmd.ProcessState.ExitCode())
	})
}

// TestRelinked: the end of a link is not the agent's end if the agent has said that it has another.
func TestRelinked(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, start func(string, int) *reaped) {
		t.Parallel()
		g := start("exit", 5)
		agent := g.agent(t)
		stop(t, agent) // or it would end with its input
		require.NoError(t, g.in.Close())
		blocks := func() bool { return signals(t, g.cmd.Process.Pid, "SigBlk")>>(41-1)&1 == 1 }
		if strings.HasSuffix(t.Name(), "/entry") {
			waitfor.Require(t, "the reaper blocks the signal", blocks)
		}
		require.NoError(t, syscall.Kill(g.cmd.Process.Pid, syscall.Signal(41)))
		time.Sleep(reaper.LinkPatience + 2*time.Second) //nolint:forbidigo // nothing happens in this time
		require.False(t, gone(agent))
		require.NoError(t, syscall.Kill(agent, syscall.SIGCONT))
		require.Error(t, g.cmd.Wait())
		require.Equal(t, 5, g.cmd.ProcessState.ExitCode())
	})
}
