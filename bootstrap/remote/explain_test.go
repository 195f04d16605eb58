package remote

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/remote/native"
	"ibrun/internal/job"
)

// over is a line that has ended.
type over struct{ how native.End }

func (over) Kill()                    {}
func (over) abandon()                 {}
func (over) Pids() []int              { return nil }
func (over) inodes() []string         { return nil }
func (over) setLimit(time.Time)       {}
func (o over) End() native.End        { return o.how }
func (over) Done() <-chan struct{}    { return closedChannel }
func (over) drained() <-chan struct{} { return closedChannel }
func (over) Release()                 {}

var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// threads and memory are what Go's runtime prints when a node gives it too little
// (go1.26, runtime/proc.go and mpagealloc.go), and a state as it follows.
const noThread = "runtime: failed to create new OS thread (have 2 already; errno=11)"

var (
	threads = noThread + "\nruntime: may need to increase max user processes (ulimit -u)\n" +
		"fatal error: newosproc\n\n" + state
	memory = "fatal error: failed to reserve page summary memory\n\n" + state
	state  = "runtime stack:\nruntime.throw({0x8a1298?, 0x800000?})\n\truntime/panic.go:1229 +0x48\n\n" +
		strings.Repeat("goroutine 1 gp=0x1 m=0 [runnable]:\nmain.main()\n\tmain.go:1\n\n", 300)
)

// How the session of an agent ended, in words that name what ended, and what did it.
func TestEndsAreNamed(t *testing.T) {
	for _, c := range []struct {
		launcher string // empty: none
		how      native.End
		printed  string
		says     string
	}{
		{"", native.End{Code: 137}, "", "its agent was killed by signal 9 (killed)"},
		{"", native.End{Code: 255}, "", "its agent ended with code 255"},
		{"", native.End{Code: 200}, "", "its agent ended with code 200"},
		{"", native.End{Code: 0}, "", "its agent ended with code 0"},
		{"", native.End{Code: CutOff}, "", "its agent received nothing from this host and ended itself"},
		{"", native.End{Signal: syscall.SIGKILL}, "", "its reaper was killed by signal 9 (killed)"},
		{"", native.End{Lost: io.EOF}, "", "the connection to its sshd was lost: closed at the other end"},
		{"", native.End{Lost: net.ErrClosed}, "", "the connection to its sshd was lost: closed at this end"},
		{"", native.End{Lost: syscall.ECONNRESET}, "", "the connection to its sshd was lost: connection reset by peer"},
		{"", native.End{Lost: errors.New("its sshd has answered nothing for 1m0s")}, "",
			"the connection to its sshd was lost: its sshd has answered nothing for 1m0s"},
		{"ssh", native.End{Code: 255}, "Timeout, server n not responding.\r\n",
			"ssh failed (code 255): Timeout, server n not responding."},
		{"ssh", native.End{Code: 255}, "", "ssh failed (code 255)"},
		{"ssh", native.End{Signal: syscall.SIGKILL}, "", "ssh was killed by signal 9 (killed)"},
		{"ssh", native.End{Code: 139}, "", "its agent was killed by signal 11 (segmentation fault)"},
		{"srun", native.End{Code: 255}, "", "its agent ended with code 255"},
		{"", native.End{Code: 2}, threads,
			"the node gives it too little: " + noThread},
		{"ssh", native.End{Code: 2}, memory,
			"the node gives it too little: fatal error: failed to reserve page summary memory"},
		{"", native.End{Code: 2}, "panic: index out of range\n\n" + state,
			"its agent crashed: panic: index out of range"},
	} {
		ses := &Session{launcher: c.launcher, line: over{c.how}, phase: Agent}
		for piece := c.printed; piece != ""; {
			n := min(7, len(piece)) // as it comes
			_, _ = ses.stderr.Write([]byte(piece[:n]))
			piece = piece[n:]
		}
		require.Equal(t, c.says, ses.Cause())
		if strings.Contains(c.says, "too little") {
			require.NotContains(t, ses.Tail(), "goroutine")
			require.NotContains(t, ses.Tail(), "runtime stack")
		}
	}
}

// The same before the agent spoke, where the shell may be what failed.
func TestFailuresOfTheCommand(t *testing.T) {
	s, err := New(job.LaunchOptions{Launcher: "ssh", Timeout: time.Second}, nil)
	require.NoError(t, err)
	for _, c := range []struct {
		launcher string
		how      native.End
		printed  string
		phase    Phase
		says     string
		hint     string
	}{
		{"", native.End{Signal: syscall.SIGSEGV}, "",
			Begin, "the command there was killed by signal 11 (segmentation fault), before the agent spoke", "try ssh"},
		{"ssh", native.End{Code: 139}, "",
			Begin, "the command there was killed by signal 11 (segmentation fault), before the agent spoke", "try ssh"},
		{"", native.End{Code: 126}, "bash: line 1: /bin/sh: Permission denied\n",
			Begin, "bash: line 1: /bin/sh: Permission denied", "ls -lL /bin/sh"},
		{"ssh", native.End{Code: 126}, "bash: line 1: /bin/sh: Permission denied\n",
			Begin, "bash: line 1: /bin/sh: Permission denied", "ls -lL /bin/sh"},
		{"ssh", native.End{Code: 1}, "/bin/sh: Permission denied.\n",
			Begin, "/bin/sh: Permission denied.", "ls -lL /bin/sh"},
		{"rsh", native.End{Code: 126}, "bash: /bin/sh: Permission denied\n",
			Begin, "bash: /bin/sh: Permission denied", "ls -lL /bin/sh"},
		{"", native.End{Code: 127}, "bash: line 1: /bin/sh: No such file or directory\n",
			Begin, "bash: line 1: /bin/sh: No such file or directory", "ssh h true"},
		{"", native.End{Code: 1}, "Connection refused\n",
			Begin, "the command there ended with code 1, before the agent spoke", "try ssh"},
		{"ssh", native.End{Code: 255}, "u@h: Permission denied (publickey).\n",
			Authenticate, "u@h: Permission denied (publickey).", "BatchMode"},
		{"ssh", native.End{Code: 255}, "", Begin, "ssh failed (code 255), before the agent spoke", "try ssh"},
		{"", native.End{Code: 2}, "/bin/sh: 1: Cannot fork\n",
			Agent, "the node gives it too little: /bin/sh: 1: Cannot fork", `ssh h "ulimit -u"`},
		{"", native.End{Code: 2}, threads, Agent, "the node gives it too little: " + noThread, `ssh h "ulimit -u"`},
		{"", native.End{Code: 2}, memory,
			Agent, "the node gives it too little: fatal error: failed to reserve page summary memory",
			`ssh h "ulimit -v"`},
		{"", native.End{Lost: io.EOF}, "",
			Begin, "the connection to its sshd was lost: closed at the other end, before the agent spoke", "try ssh"},
	} {
		ses := &Session{launcher: c.launcher, line: over{c.how}, phase: Begin}
		fmt.Fprint(&ses.stderr, c.printed)
		var e *Error
		require.ErrorAs(t, ses.explain(Target{Host: "h"}, io.EOF, s), &e)
		require.Equal(t, c.says, e.Cause)
		require.Equal(t, c.phase, e.Phase, c.says)
		require.Contains(t, e.Hint, c.hint)
		require.NotContains(t, e.Tail, "goroutine")
	}
}

// TestDeniedByAdoption requires that an error contains the message of Slurm's PAM module as its cause, even if the
// connection of package native failed before a session was open.
func TestDeniedByAdoption(t *testing.T) {
	e := &Error{Host: "h", Phase: Authenticate, Cause: "permission denied for u (publickey)"}
	require.True(t, e.take(loginClues, adoption+": you have no active jobs on this node\n"))
	require.Equal(t, adoption+": you have no active jobs on this node", e.Cause)
	require.Contains(t, e.Hint, "does the job still run?")
	require.True(t, e.early, "the job may just have begun")
}
