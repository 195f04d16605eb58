//go:build cluster

package ssh

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/reaper"
	"ibrun/test/executable"
	"ibrun/test/product"
	"ibrun/test/vcluster/cluster"
)

// TestLostAgent runs two jobs and kills an inner agent in each, in the second one together with its reaper. The tree of
// agents has three levels below the root. The parent of the killed agent must adopt its children. No output of ranks on
// other nodes may be lost or duplicated. All remaining ranks must report the same failed collective, with the lost
// ranks in its error. ibrun must exit with code 125.
func TestLostAgent(t *testing.T) {
	parallel(t, working)
	c := shared(t, 16)
	program := example(t, c, "test/cluster/mender")
	for _, of := range []struct {
		node int
		both bool
	}{{1, false}, {2, true}} {
		const lines = 60
		j := watch(t, c, "--on-agent-loss", "repair", "--fanout", "2", "-n", "20", "--hosts", "node[0001-0010]:2",
			program, "-lines", strconv.Itoa(lines))
		j.until("rank 19 line 10 ")
		node := fmt.Sprintf("node%04d", of.node)
		pids := j.processes(node, role(reaper.Agent))
		if of.both {
			pids = append(pids, j.processes(node, role(reaper.Role))...)
		}
		j.kill(pids...)
		j.end(20, 2, lines, map[int]bool{of.node - 1: true})
		require.Equal(t, 125, j.cmd.ProcessState.ExitCode(), j.err.String())
		require.Contains(t, j.err.String(), node)
		_, why := j.commonResult(18)
		require.Regexp(t, fmt.Sprintf("ranks? %d", 2*of.node-2), why)
	}
}

// TestAdoptedAgentLives kills the middle agent in a chain of three. The agent below it gets a new parent, and must not
// be killed by its reaper. The rank of that agent must print a line per second for another minute. A reaper kills an
// agent that has been without a parent for less than that time.
func TestAdoptedAgentLives(t *testing.T) {
	parallel(t, waiting)
	c := own(t, cluster.Config{Nodes: 3})
	const lines = 65
	j := watch(t, c, "--on-agent-loss", "repair", "--tree", "chain", "-n", "3", "--hosts", "node[0001-0003]", "sh", "-c",
		fmt.Sprintf(`for i in $(seq 0 %d); do echo "rank $IBRUN_RANK line $i "; sleep 1; done`, lines-1))
	j.until("rank 2 line 3 ")
	j.kill(j.processes("node0002", role(reaper.Agent))...)
	j.end(3, 1, lines, map[int]bool{1: true})
	require.Equal(t, 125, j.cmd.ProcessState.ExitCode(), j.err.String())
}

// TestOnlyOneNodeIsLost requires that a job that repairs its tree loses only the rank of node0002 if its agent gets
// SIGTERM, as in the shutdown of a node, or if its reaper is killed. Without repair, SIGTERM to an agent ends the job.
func TestOnlyOneNodeIsLost(t *testing.T) {
	parallel(t, waiting)
	c := own(t, cluster.Config{Nodes: 3})
	const lines = 9
	for _, a := range []struct {
		role    string
		signal  syscall.Signal
		options []string
		code    int
		stderr  string
	}{
		{reaper.Agent, syscall.SIGTERM, []string{"--on-agent-loss", "repair", "--tree", "chain"}, 125,
			"ibrun: the agent on node0002 was lost (seen by node0001): its agent was killed by signal 15 (terminated)\n"},
		{reaper.Role, syscall.SIGKILL, []string{"--on-agent-loss", "repair", "--tree", "chain"}, 125,
			"ibrun: the agent on node0002 was lost (seen by node0001): its reaper was killed by signal 9 (killed)\n"},
		{reaper.Role, syscall.SIGKILL, []string{"--on-agent-loss", "repair", "--tree", "flat", "--ssh", "exec"}, 125,
			"ibrun: the agent on node0002 was lost (seen by front): ssh failed (code 255)\n"},
		{reaper.Agent, syscall.SIGTERM, []string{"--tree", "chain"}, 143,
			"ibrun: the job was ended: the agent on node0002 got SIGTERM\n"},
	} {
		j := watch(t, c, append(a.options, "-n", "3", "--hosts", "node[0001-0003]", "sh", "-c",
			fmt.Sprintf(`for i in $(seq 0 %d); do echo "rank $IBRUN_RANK line $i "; sleep 1; done`, lines-1))...)
		j.until("rank 2 line 2 ")
		require.NoError(t, syscall.Kill(j.processes("node0002", role(a.role))[0], a.signal))
		ended := a.code == 143
		j.end(3, 1, lines, map[int]bool{0: ended, 1: true, 2: ended})
		require.Equal(t, a.code, j.cmd.ProcessState.ExitCode(), j.err.String())
		require.Equal(t, a.stderr, product.Complaints(j.err.String()))
	}
}

// TestStoppedReaper stops the reaper of node0002. The job must end as usual, and the reaper with it.
func TestStoppedReaper(t *testing.T) {
	parallel(t, working)
	c := own(t, cluster.Config{Nodes: 2})
	j := watch(t, c, "-n", "2", "--hosts", "node[0001-0002]", "sh", "-c", "echo rank $IBRUN_RANK line 0; exec sleep 1000")
	j.until("rank 1 line 0")
	require.NoError(t, syscall.Kill(j.processes("node0002", role(reaper.Role))[0], syscall.SIGSTOP))
	j.kill(j.processes("node0001", func(argv []string) bool { return slices.Contains(argv, "sleep") })[0])
	<-j.waited
	require.Equal(t, 137, j.cmd.ProcessState.ExitCode(), j.err.String())
	requireNothingLeft(t, c)
}

// TestLostSession kills the ssh clients of two sessions, one after the other: of a session that an inner agent has
// opened, and of one that ibrun has opened. Each time a new session must connect to the running agent. No output may be
// lost or duplicated, and no collective may fail.
func TestLostSession(t *testing.T) {
	parallel(t, working)
	c := shared(t, 16)
	program := example(t, c, "test/cluster/mender")
	const lines = 60
	j := watch(t, c, "--on-agent-loss", "repair", "--ssh", "exec", "--fanout", "2", "-n", "7", "--hosts",
		"node[0001-0007]", program, "-lines", strconv.Itoa(lines))
	j.until("rank 6 line 10 ")
	isSSH := func(argv []string) bool { return len(argv) > 0 && argv[0] == "ssh" }
	j.kill(j.processes("node0001", isSSH)[0])
	j.until("rank 6 line 25 ")
	j.kill(j.processes(cluster.FrontName, isSSH)[0])
	j.end(7, 1, lines, nil)
	require.Equal(t, 0, j.cmd.ProcessState.ExitCode(), j.err.String())
	joined, why := j.commonResult(7)
	require.Equal(t, "<nil>", why)
	require.GreaterOrEqual(t, joined, 20, "collectives that succeeded")
}

// TestSlowSessions kills a session of ibrun, where each session takes 4.5 s to start. ibrun must open a new one and the
// job must succeed. The agent at the other end waits long enough for the new session, because ibrun has told it how
// long the first one took to start.
func TestSlowSessions(t *testing.T) {
	parallel(t, working)
	c := shared(t, 4)
	program := example(t, c, "test/cluster/mender")
	const lines = 40
	slow := filepath.Join(c.Shared(), "slow")
	require.NoError(t, executable.Write(slow, []byte("#!/bin/sh\nsleep 4.5\nexec ssh \"$@\"\n")))
	j := watch(t, c, "--on-agent-loss", "repair", "--launcher-exec", slow, "-n", "2", "--hosts", "node[0001-0002]",
		program, "-lines", strconv.Itoa(lines))
	j.until("rank 0 line 10 ")
	j.until("rank 1 line 10 ")
	isSSH := func(argv []string) bool { return len(argv) > 0 && argv[0] == "ssh" }
	j.kill(j.processes(cluster.FrontName, isSSH)[0])
	j.end(2, 1, lines, nil)
	require.Equal(t, 0, j.cmd.ProcessState.ExitCode(), j.err.String())
}

// fences is a shell script that runs as a rank and speaks PMI-1. In each round it puts a value, waits in a barrier and
// gets the value of another rank. It prints a numbered line for each round, or fails if the value is wrong. Its
// argument is the number of rounds.
const fences = `
ask() { printf '%s\n' "$1" >&$PMI_FD; IFS= read -r a <&$PMI_FD; }
ask 'cmd=init pmi_version=1 pmi_subversion=1'
ask cmd=get_my_kvsname
kvs=${a#*kvsname=}
kvs=${kvs%% *}
i=0
while [ $i -lt $1 ]; do
	other=$(((PMI_RANK + 3) % PMI_SIZE))
	ask "cmd=put kvsname=$kvs key=k-$PMI_RANK-$i value=v$PMI_RANK.$i"
	ask cmd=barrier_in
	ask "cmd=get kvsname=$kvs key=k-$other-$i"
	case "$a" in *"value=v$other.$i"*) echo "rank $PMI_RANK line $i of fences" ;; *) echo "bad: $a"; exit 1 ;; esac
	sleep 0.03
	i=$((i + 1))
done
ask cmd=barrier_in
ask cmd=finalize
`

// TestFencesGoOn runs the script fences and kills a session between ibrun and an agent, and later one between two
// agents. All rounds of all ranks must succeed.
func TestFencesGoOn(t *testing.T) {
	parallel(t, working)
	c := shared(t, 16)
	const rounds = 60
	j := watch(t, c, "--on-agent-loss", "repair", "--ssh", "exec", "--fanout", "2", "-n", "7", "--hosts",
		"node[0001-0007]", "sh", "-c", fences, "sh", strconv.Itoa(rounds))
	j.until("rank 6 line 5 ")
	isSSH := func(argv []string) bool { return len(argv) > 0 && argv[0] == "ssh" }
	j.kill(j.processes(cluster.FrontName, isSSH)[0])
	j.until("rank 6 line 15 ")
	j.kill(j.processes("node0001", isSSH)[0])
	j.end(7, 1, rounds, nil)
	require.Equal(t, 0, j.cmd.ProcessState.ExitCode(), j.err.String())
}

// TestRelaunched kills the agent of an inner node, with --on-failure restart. The ranks of that node must be restarted
// on the same node. All other ranks must continue, none of their output may be lost or duplicated, and the job must
// succeed.
func TestRelaunched(t *testing.T) {
	parallel(t, working)
	relaunched(t, shared(t, 16), false)
}

// TestRelaunchedOnASpare cuts off the network of an inner node, with --on-failure restart. Its ranks must be restarted
// on the spare node.
func TestRelaunchedOnASpare(t *testing.T) {
	parallel(t, waiting)
	relaunched(t, own(t, cluster.Config{Nodes: 10}), true)
}

// relaunched runs a job of 18 ranks on nine nodes and makes node0001 fail: it cuts off its network if cut is set, and
// otherwise kills its agent. It requires that only the two ranks of that node are restarted, on the spare node0010 or
// on node0001, and that the job succeeds.
func relaunched(t *testing.T, c *cluster.Cluster, cut bool) {
	program := example(t, c, "test/cluster/mender")
	const lines = 200
	every, on, args := "30ms", "node0001", []string{"--on-failure", "restart", "--fanout", "2", "-n", "18", "--hosts",
		"node[0001-0010]:2", "--kill-grace", "1", "--timeout", "150"}
	if cut {
		every, on, args = "120ms", "node0010", append(args, "--spares", "1")
	}
	script := `echo "start $IBRUN_RESTART of $IBRUN_RANK on $(hostname)"; exec "$@"`
	j := watch(t, c, append(args, "sh", "-c", script, "sh", program, "-lines", strconv.Itoa(lines), "-every",
		every)...)
	j.again = 1
	j.until("rank 17 line 10 ")
	if cut {
		require.NoError(t, c.Cut("node0001"))
	} else {
		j.kill(j.processes("node0001", role(reaper.Agent))...)
	}
	j.until("start 1 of 0 on " + on)
	j.until("start 1 of 1 on " + on)
	j.end(18, 2, lines, nil)
	require.Equal(t, 0, j.cmd.ProcessState.ExitCode(), j.err.String())
	require.Equal(t, 20, strings.Count(j.out.String(), "start "), j.out.String())
	require.Contains(t, j.err.String(), "its ranks start again (restart 1)")
	require.Equal(t, cut, strings.Contains(j.err.String(), "spare node0010 takes the place of node0001"))
}
