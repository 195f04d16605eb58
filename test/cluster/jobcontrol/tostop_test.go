//go:build cluster

package jobcontrol

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mostSpent is far more than a root needs for a small job, and far less than one that is
// sent SIGTTOU again and again while its call is begun again.
const mostSpent = 2 * time.Second

// spent is the processor time of a process, as proc_pid_stat(5) has it.
func spent(pid int) (sum time.Duration) {
	const tick = 10 * time.Millisecond
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	words := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	for _, w := range words[11:13] { // utime, stime
		n, _ := strconv.Atoi(w)
		sum += time.Duration(n) * tick
	}
	return sum
}

// A job in the background that may not write to the terminal is stopped with all
// its ranks, not only its root.
func TestBackgroundOutput(t *testing.T) {
	t.Parallel()
	term := openTerminal(t, here)
	term.line("stty tostop; %s -n 4 %s sh -c 'sleep 1; echo out; while :; do sleep 0.1; done' &", program, local)
	term.awaitStop(4)
	require.Less(t, spent(root(term)), mostSpent)
	term.line("jobs")
	term.expect("Stopped")
	term.line("fg")
	for range 4 {
		term.expect("out\r\n")
	}
	term.keys("\x03")
	term.expect("SIGINT")
	term.expect("ready> ")
	term.line("echo code=$?")
	term.expect("code=130")
}

// What ibrun itself has to say is shown in the background, too, and does not keep it there.
func TestBackgroundReport(t *testing.T) {
	t.Parallel()
	term := openTerminal(t, here)
	term.line("stty tostop; %s -n 2 %s sh -c 'exit 3' & wait; echo code=$?", program, local)
	term.expect("ibrun: rank ")
	term.line("fg; fg; echo over") // if it was stopped before it was over
	term.expect("over\r\n")
	term.await("only the shell is left", func() bool { return len(term.processes()) == 1 })
}

// A job that wants the terminal for a rank runs in the background without it, and takes it in
// front.
func TestBackgroundTerminal(t *testing.T) {
	t.Parallel()
	term := openTerminal(t, here)
	term.line(`%s -n 1 --pty sh -c 'read a; stty raw; echo "got <$a>"' &`, program)
	term.await("the rank runs", func() bool { all, _ := term.ranks(); return all > 0 })
	<-time.After(time.Second) // it spends time, or does not
	require.Less(t, spent(root(term)), mostSpent)
	term.line("echo ours")
	term.expect("ours\r\n")
	term.line("fg")
	term.expect("--pty")
	term.line("word")
	term.expect("got <word>")
	term.expect("ready> ")
}

// A job does not stop when its shell is killed at the moment at which it is about to:
// nobody would continue it. It ends when it cannot write.
func TestShellHasEnded(t *testing.T) {
	t.Parallel()
	for i := range 6 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t, here)
			const what = "'sleep 1; echo out; while :; do sleep 0.1; done'"
			term.line("stty tostop; %s -n 2 %s sh -c %s &", program, local, what)
			term.await("both ranks run", func() bool { all, _ := term.ranks(); return all >= 2 })
			<-time.After(800*time.Millisecond + time.Duration(i)*70*time.Millisecond) // before, amid and behind
			require.NoError(t, term.shell.Process.Signal(syscall.SIGKILL))
			require.NoError(t, term.master.Close()) // as a terminal does whose shell has ended
			term.await("nothing is left", func() bool { return term.others() == 0 })
		})
	}
}
