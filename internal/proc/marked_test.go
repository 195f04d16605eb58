package proc

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"ibrun/test/waitfor"

	"github.com/stretchr/testify/require"
)

// marked starts a process that leaves its session, with a mark in its environment, and returns
// its number when it runs.
func marked(t *testing.T, mark Mark, argv ...string) int {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), mark.Variables...), &syscall.SysProcAttr{Setsid: true}
	require.NoError(t, cmd.Start())
	go func() { _ = cmd.Wait() }()
	pid := cmd.Process.Pid
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	waitfor.Require(t, "the program runs", func() bool { return mark.has(pid) })
	return pid
}

func markOf(t *testing.T, node string) Mark {
	id := t.Name() + strconv.Itoa(os.Getpid())
	return Mark{Variables: []string{"IBRUN_JOB_ID=" + id, "IBRUN_NODE=" + node}, Keeper: ":agent"}
}

// Processes of one job and node are killed, whatever session they are in; those of another node of
// the job are not.
func TestMarkedAreKilled(t *testing.T) {
	mine, other := markOf(t, "3"), markOf(t, "4")
	one, two := marked(t, mine, "sleep", "1000"), marked(t, mine, "sleep", "1000")
	spared := marked(t, other, "sleep", "1000")
	killed, left, err := KillMarked(mine, 0, waitfor.Deadline)
	require.NoError(t, err)
	require.Equal(t, 2, killed)
	require.Empty(t, left)
	require.True(t, dead(one) && dead(two))
	require.False(t, dead(spared))
	killed, left, err = KillMarked(mine, 0, waitfor.Deadline)
	require.NoError(t, err)
	require.Zero(t, killed)
	require.Empty(t, left)
}

// What forks while it is killed does not get away: its children have the mark, too.
func TestMarkedThatFork(t *testing.T) {
	mark := markOf(t, "0")
	marked(t, mark, "sh", "-c", "while :; do sleep 1000 & [ $(jobs -p | wc -l) -lt 50 ] || wait; done")
	_, left, err := KillMarked(mark, 0, waitfor.Deadline)
	require.NoError(t, err)
	require.Empty(t, left)
	found, err := mark.find()
	require.NoError(t, err)
	require.Empty(t, found)
}

// A process below a living agent has the grace to end by itself, and is killed after it.
func TestMarkedBelowAKeeper(t *testing.T) {
	mark := markOf(t, "0")
	mark.Keeper = "-s" // a shell that reads its script, and the keeper's argument is its first
	end, stay, err := os.Pipe()
	require.NoError(t, err)
	defer stay.Close()
	keeper := exec.Command("sh", "-s", mark.Variables[0])
	keeper.ExtraFiles = []*os.File{end}
	in, err := keeper.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, keeper.Start())
	end.Close()
	t.Cleanup(func() { _ = keeper.Process.Kill(); _ = keeper.Wait() })
	for _, polite := range []bool{true, false} {
		_, err = in.Write([]byte("env $1 IBRUN_NODE=0 sh -c 'read x <&3' &\n"))
		require.NoError(t, err)
		var found []int
		waitfor.Require(t, "the process runs", func() bool {
			found, _ = mark.find()
			return len(found) == 1
		})
		require.True(t, mark.kept(found[0]))
		killed := make(chan int)
		go func() {
			grace := time.Duration(0)
			if polite {
				grace = waitfor.Deadline
			}
			n, left, err := KillMarked(mark, grace, waitfor.Deadline)
			if err != nil || len(left) > 0 {
				n = -1
			}
			killed <- n
		}()
		if polite {
			for range 3 { // as long as KillMarked needs to look three times
				_, _ = mark.find()
			}
			_, err = stay.Write([]byte("\n"))
			require.NoError(t, err)
			require.Zero(t, waitfor.Receive(t, killed))
		} else {
			require.Equal(t, 1, waitfor.Receive(t, killed))
		}
		require.True(t, dead(found[0]))
	}
}
