package proc

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ibrun/test/waitfor"

	"github.com/stretchr/testify/require"
)

// Everything below stops, in any session and group, with handlers or without; a
// spared subtree does not. Everything goes on afterwards.
func TestStopDescendants(t *testing.T) {
	pids := func(line func() string, n int) (list []int) {
		for range n {
			pid, err := strconv.Atoi(line())
			require.NoError(t, err)
			list = append(list, pid)
		}
		return list
	}
	const loop = "while :; do sleep 0.01; done"
	_, line := shell(t, "trap : TSTP CONT; echo $$; setsid sh -c 'echo $$; "+loop+"' & "+loop)
	below := pids(line, 2)
	t.Cleanup(func() { // its session is another one
		for _, pid := range below {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	spared, line := shell(t, "echo $$; "+loop)
	pids(line, 1)

	// A parent in vfork sleeps, D, as long as its child is stopped.
	halted := func(pid int) bool { return strings.IndexByte("TD", state(pid)) >= 0 }
	for range 5 {
		StopDescendants(waitfor.Deadline, spared.Pid())
		waitfor.Require(t, "both stop", func() bool { return halted(below[0]) && halted(below[1]) })
		require.NotEqual(t, byte('T'), state(spared.Pid()))
		ContinueDescendants(waitfor.Deadline, spared.Pid())
		waitfor.Require(t, "both go on", func() bool { return !halted(below[0]) && !halted(below[1]) })
	}
}

// Processes that fork a child and end, over and over, are stopped as well: afterwards nothing runs,
// and nothing new comes. Every other time their parents ignore how they end, so that none is a
// zombie.
func TestStopOfThoseThatFork(t *testing.T) { stopForkers(t, 2, 100) }

// stopForkers stops processes that fork and end, several times. Each of their chains has a length.
func stopForkers(t *testing.T, rounds, length int) {
	require.NoError(t, BecomeSubreaper())
	const each = `r() { [ $1 = 0 ] && exec sleep 1000; r $(($1-1)) & }; for i in 1 2 3 4; do r %d & done`
	chains := fmt.Sprintf(each, length)
	ignore := []string{"", "trap '' CHLD; "}
	for i := range rounds {
		spared, err := Start(Cmd{Path: "/bin/sleep", Argv: []string{"sleep", "1000"}})
		require.NoError(t, err)
		p, err := Start(Cmd{Path: "/bin/sh", Argv: []string{"sh", "-c", ignore[i%2] + chains}, Setsid: true})
		require.NoError(t, err)
		<-p.Done()
		StopDescendants(waitfor.Deadline, spared.Pid())
		stopped := Descendants(os.Getpid(), spared.Pid())
		for _, pid := range stopped {
			require.Contains(t, "T", string(state(pid)), "%v", alive(stopped))
		}
		require.Equal(t, stopped, Descendants(os.Getpid(), spared.Pid()))
		require.NotEqual(t, byte('T'), state(spared.Pid()))
		require.Empty(t, KillDescendants(waitfor.Deadline))
		<-spared.Done()
	}
}

// A group is orphaned where no shell that does job control stands above it.
func TestGroupOrphaned(t *testing.T) {
	if os.Getenv("ORPHANED") != "" {
		_, _ = os.Stdout.WriteString(strconv.FormatBool(GroupOrphaned()) + "\n")
		os.Exit(0)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	program := "env ORPHANED=1 " + self + " -test.run=^TestGroupOrphaned$"
	for _, c := range []struct{ name, script, want string }{
		{"a group of its own, below one of the same session", "exec bash -c 'set -m; " + program + " & wait'", "false"},
		{"the same, below a script", "exec bash -c 'set -m; sh -c \"" + program + "; exit\" & wait'", "false"},
		{"the group of a session's leader", program + "; exit", "true"},
		{"a session of its own", "setsid -w " + program + "; exit", "true"},
	} {
		_, line := shell(t, c.script)
		require.Equal(t, c.want, line(), c.name)
	}
}

// A process that catches SIGTSTP stops as one that does not, and catches it again afterwards.
// Where nobody could continue it, it does not stop.
func TestSuspend(t *testing.T) {
	if os.Getenv("SUSPENDED") != "" {
		caught := make(chan os.Signal, 1)
		signal.Notify(caught, syscall.SIGTSTP)
		fmt.Println(os.Getpid(), Suspend())
		_ = syscall.Kill(os.Getpid(), syscall.SIGTSTP)
		fmt.Println(<-caught)
		os.Exit(0)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	program := "env SUSPENDED=1 " + self + " -test.run=^TestSuspend$"
	_, line := shell(t, "exec bash -c 'set -m; "+program+" & echo $!; kill -STOP $$'")
	pid, err := strconv.Atoi(line())
	require.NoError(t, err)
	waitfor.Require(t, "it stops", func() bool { return state(pid) == 'T' })
	require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
	require.Equal(t, fmt.Sprint(pid, " true"), line())
	require.Equal(t, "stopped", line())

	_, line = shell(t, "setsid -w "+program+"; exit")
	require.Contains(t, line(), " false")
	require.Equal(t, "stopped", line())
}
