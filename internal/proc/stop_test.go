package proc

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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
	_, line := shell(t, `trap : TSTP CONT; echo $$; setsid sh -c 'echo $$; while :; do sleep 0.01; done' & while :; do sleep 0.01; done`)
	below := pids(line, 2)
	spared, line := shell(t, `echo $$; while :; do sleep 0.01; done`)
	pids(line, 1)

	// A parent in vfork sleeps, D, as long as its child is stopped.
	halted := func(pid int) bool { return strings.IndexByte("TD", state(pid)) >= 0 }
	for range 20 {
		StopDescendants(patience, spared.Pid())
		require.Eventually(t, func() bool { return halted(below[0]) && halted(below[1]) }, patience, time.Millisecond)
		require.NotEqual(t, byte('T'), state(spared.Pid()))
		ContinueDescendants(patience, spared.Pid())
		require.Eventually(t, func() bool { return !halted(below[0]) && !halted(below[1]) }, patience, time.Millisecond)
	}
}

// A group is orphaned where no shell that does job control stands above it.
func TestGroupOrphaned(t *testing.T) {
	if len(os.Args) > 1 && os.Getenv("ORPHANED") != "" {
		_, _ = os.Stdout.WriteString(strconv.FormatBool(GroupOrphaned()))
		os.Exit(0)
	}
	for _, c := range []struct {
		name string
		attr syscall.SysProcAttr
		with []string
		want string
	}{
		{"a group of its own, below one of the same session", syscall.SysProcAttr{Setpgid: true}, nil, "false"},
		{"the same, below a script", syscall.SysProcAttr{Setpgid: true}, []string{"sh", "-c", `"$@"; exit`, "sh"}, "false"},
		{"a session of its own", syscall.SysProcAttr{Setsid: true}, nil, "true"},
		{"the same, below a script", syscall.SysProcAttr{Setsid: true}, []string{"sh", "-c", `"$@"; exit`, "sh"}, "true"},
	} {
		self, err := os.Executable()
		require.NoError(t, err)
		args := append(c.with, self, "-test.run=^TestGroupOrphaned$")
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "ORPHANED=1")
		cmd.SysProcAttr = &c.attr
		out, err := cmd.Output()
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, strings.TrimSpace(string(out)), c.name)
	}
	require.False(t, GroupInFront(), "without a terminal")
}
