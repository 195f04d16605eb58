package proc

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"ibrun/test/waitfor"

	"github.com/stretchr/testify/require"
)

// None of the processes that fork and end while they are killed is missed, whether or not
// another one is spared.
func TestNoneIsMissed(t *testing.T) { killForkers(t, 6) }

// killForkers kills processes that fork and end, several times.
func killForkers(t *testing.T, rounds int) {
	require.NoError(t, BecomeSubreaper())
	const each = `r() { [ $1 = 0 ] && exec sleep 1000; r $(($1-1)) & }; for i in 1 2 3 4; do r 30 & done`
	for i := range rounds {
		var spare []int
		spared, err := Start(Cmd{Path: "/bin/sleep", Argv: []string{"sleep", "1000"}})
		require.NoError(t, err)
		if i%2 == 0 {
			spare = []int{spared.Pid()}
		}
		p, err := Start(Cmd{Path: "/bin/sh", Argv: []string{"sh", "-c", each}, Setsid: true})
		require.NoError(t, err)
		<-p.Done()
		require.Empty(t, KillDescendants(waitfor.Deadline, spare...))
		require.Equal(t, i%2 != 0, dead(spared.Pid()))
		spared.Signal(syscall.SIGKILL)
		<-spared.Done()
		if !childless() { // who was missed may have just been forked
			require.Empty(t, alive(Descendants(os.Getpid())))
		}
	}
}

// alive describes processes.
func alive(pids []int) (text []string) {
	for _, pid := range pids {
		if name, state := Look(pid); state != 0 {
			text = append(text, fmt.Sprintf("%d (%s) %c, child of %d", pid, name, state, parent(pid)))
		}
	}
	return text
}

// threadEnds in the environment ends the first thread of a process, in which init runs; a
// zombie by its name, it lives on.
const threadEnds = "IBRUN_TEST_THREAD_ENDS"

func init() {
	if os.Getenv(threadEnds) != "" {
		go func() {
			for Stat(os.Getpid())[0] != "Z" {
				runtime.Gosched()
			}
			fmt.Println(os.Getpid())
			select {}
		}()
		_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
	}
}

// A process whose first thread has ended is killed like others, with what is below it.
func TestFirstThreadEnds(t *testing.T) {
	require.NoError(t, BecomeSubreaper())
	self, err := os.Executable()
	require.NoError(t, err)
	p, line := shell(t, threadEnds+"=1 setsid "+self+" & wait")
	pid, err := strconv.Atoi(line())
	require.NoError(t, err)
	require.False(t, dead(pid))
	require.False(t, exiting(pid), "its other threads run")
	require.Contains(t, Descendants(p.Pid()), pid)
	require.Empty(t, KillDescendants(waitfor.Deadline))
	require.True(t, dead(pid))
	require.True(t, ended(t, p).Signaled())
}

// A process is dying once it cannot do anything any more, also before it is reaped.
func TestDying(t *testing.T) {
	p, line := shell(t, "sleep 0 & echo $!; exec sleep 1000")
	child, err := strconv.Atoi(line())
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the shell is in state %c, its child in state %c", state(p.Pid()), state(child))
		}
	})
	waitfor.Require(t, "the child is exiting", func() bool { return exiting(child) })
	require.False(t, p.Dying())
	p.Signal(syscall.SIGKILL)
	ended(t, p)
	require.True(t, p.Dying())
}

// A first round that has taken all the time there is still kills.
func TestKillInNoTime(t *testing.T) {
	require.NoError(t, BecomeSubreaper())
	p, line := shell(t, "trap '' TERM; echo $$; exec sleep 1000")
	line()
	KillDescendants(0)
	require.Equal(t, syscall.SIGKILL, ended(t, p).Signal())
}
