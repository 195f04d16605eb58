package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// standing is what /proc/PID/stat has of a process, proc(5).
type standing struct {
	pid, parent, group, session, terminal int
	state                                 byte
}

func stand(t *testing.T, pid int) (s standing) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(b), ") ")
	require.True(t, found)
	_, err = fmt.Sscanf(rest, "%c %d %d %d %d", &s.state, &s.parent, &s.group, &s.session, &s.terminal)
	require.NoError(t, err)
	s.pid = pid
	return s
}

// autogroup is the kernel's scheduling group of a process; empty where the kernel has none.
func autogroup(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/autogroup", pid))
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return string(b)
}

// printedPIDs reads so many process ids, one a line.
func printedPIDs(t *testing.T, from io.Reader, count int) (pids []int) {
	t.Helper()
	for lines := bufio.NewScanner(from); len(pids) < count; {
		require.True(t, lines.Scan())
		pid, err := strconv.Atoi(lines.Text())
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}

// Ranks of a node share their agent's session, and with it the kernel's autogroup, within
// which sched_yield lets other ranks go first: between sessions, 4 ranks of Open MPI took 22 s
// on two busy CPUs for what took 0.8 s under mpirun. Each leads a process group, for signals,
// which is not orphaned: what stops a job at a terminal stops it.
func TestSessions(t *testing.T) {
	cmd := command(t, "-n", "4", "--launcher", "local", "--hosts", "a:2,b:2", "sh", "-c",
		"echo $$; while :; do sleep 0.01; done")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	sessions := map[int]int{}
	for _, pid := range printedPIDs(t, out, 4) {
		rank := stand(t, pid)
		agent := stand(t, rank.parent)
		sessions[rank.session]++
		require.Equal(t, rank.pid, rank.group)
		require.Equal(t, agent.pid, rank.session)
		require.Equal(t, agent.pid, agent.session)
		require.Zero(t, rank.terminal)
		require.Equal(t, autogroup(t, agent.pid), autogroup(t, pid))
		require.NoError(t, syscall.Kill(-pid, syscall.SIGTSTP))
		eventually(t, 2*time.Minute, "it is stopped", func() bool { return stand(t, pid).state == 'T' })
		require.NoError(t, syscall.Kill(-pid, syscall.SIGCONT))
		eventually(t, 2*time.Minute, "it goes on", func() bool { return stand(t, pid).state != 'T' })
	}
	require.Len(t, sessions, 2)
	for _, ranks := range sessions {
		require.Equal(t, 2, ranks)
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	require.Equal(t, 128+int(syscall.SIGTERM), cmd.ProcessState.ExitCode())
}

// A terminal that is a rank's input file does not become the controlling terminal of the
// agent's session: reading it would stop every rank.
func TestTerminalAsInput(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	defer master.Close()
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	defer slave.Close()
	_, err = master.WriteString("typed\n")
	require.NoError(t, err)
	o := ibrun(t, "-n", "1", "--timeout", "20", "--input", slave.Name(), "sh", "-c",
		`read line; echo "$line"; cut -d" " -f7 /proc/$$/stat`)
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, "typed\n0\n", string(o.stdout))
}
