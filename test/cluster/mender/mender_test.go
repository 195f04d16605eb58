//go:build cluster

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/reaper"
	"ibrun/internal/executable"
	"ibrun/test/product"
	"ibrun/test/screen"
	"ibrun/test/vcluster/cluster"
)

var nodes = flag.Int("nodes", 13, "of which an agent is lost that has a third of them below it")

// launcher is ibrun.
var launcher string

func TestMain(m *testing.M) { os.Exit(product.Run(m, &launcher)) }

// watched is a job under way, whose output is read as it comes.
type watched struct {
	t      *testing.T
	c      *cluster.Cluster
	cmd    *exec.Cmd
	stderr screen.Screen
	stdout screen.Screen
	ended  chan struct{}
	again  int // node whose ranks have started again, from 1; 0: none
}

func start(t *testing.T, c *cluster.Cluster, args ...string) *watched {
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	t.Cleanup(cancel)
	j := &watched{t: t, c: c, cmd: c.Command(ctx, append([]string{launcher}, args...)...), ended: make(chan struct{})}
	j.cmd.Stdout, j.cmd.Stderr = &j.stdout, &j.stderr
	require.NoError(t, j.cmd.Start())
	go func() {
		_ = j.cmd.Wait()
		close(j.ended)
	}()
	return j
}

// until waits for something that the job prints, and no longer than the job lasts.
func (j *watched) until(what string) {
	printed := func() bool { return strings.Contains(j.stdout.String(), what) }
	fail := func(why string) {
		require.FailNow(j.t, why+", not printed: "+what, "%s\n%s", j.stderr.String(), j.stdout.String())
	}
	for late := time.After(3 * time.Minute); !printed(); {
		select {
		case <-j.ended:
			if !printed() {
				fail("the job has ended")
			}
		case <-late:
			fail("3 minutes")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// agents are the processes of a role on a node.
func (j *watched) processes(node string, is func(argv []string) bool) (pids []int) {
	all, err := j.c.AllProcesses()
	require.NoError(j.t, err)
	for _, p := range all[node] {
		if is(p.Argv) {
			pids = append(pids, p.Pid)
		}
	}
	return pids
}

func role(name string) func([]string) bool {
	return func(argv []string) bool { return len(argv) > 1 && argv[1] == name }
}

// kill kills processes of a node in the same instant, and returns when that was: none sees that
// another is gone before it is killed itself.
func (j *watched) kill(pids ...int) time.Time {
	require.NotEmpty(j.t, pids)
	for _, pid := range slices.Backward(pids) {
		require.NoError(j.t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	for _, pid := range pids {
		require.NoError(j.t, syscall.Kill(pid, syscall.SIGKILL))
	}
	return time.Now()
}

// end waits for the job's end and holds its output against what the ranks print: of all ranks but
// those of the lost nodes each line once, in order.
func (j *watched) end(ranks, each, lines int, lost map[int]bool) {
	select {
	case <-j.ended:
	case <-time.After(4 * time.Minute):
		require.FailNow(j.t, "it does not end", "%s\n%s", j.stderr.String(), j.stdout.String())
	}
	next := make([]int, ranks)
	for line := range strings.Lines(j.stdout.String()) {
		var rank, n int
		if _, err := fmt.Sscanf(line, "rank %d line %d ", &rank, &n); err != nil {
			continue
		}
		if n == 0 && rank/each == j.again-1 {
			next[rank] = 0
		}
		require.Equal(j.t, next[rank], n, "of rank %d\n%s", rank, j.stderr.String())
		next[rank]++
	}
	for rank, n := range next {
		if !lost[rank/each] {
			require.Equal(j.t, lines, n, "lines of rank %d\n%s", rank, j.stderr.String())
		}
	}
	left := func() (found int) {
		for _, node := range j.c.Nodes() {
			found += len(j.processes(node, role(reaper.Agent))) + len(j.processes(node, role(reaper.Role)))
		}
		return found
	}
	require.Eventually(j.t, func() bool { return left() == 0 }, 15*time.Second, 50*time.Millisecond, "agents are left")
}

var collective = regexp.MustCompile(`rank \d+: (\d+) collectives, then (.*)`)

// same returns how many collectives all ranks have joined that could tell, and what ended them.
func (j *watched) same(tell int) (joined int, why string) {
	found := collective.FindAllStringSubmatch(j.stdout.String(), -1)
	require.Len(j.t, found, tell, j.stderr.String())
	for _, f := range found {
		require.Equal(j.t, found[0][1:], f[1:])
	}
	joined, err := strconv.Atoi(found[0][1])
	require.NoError(j.t, err)
	return joined, found[0][2]
}

func mender(t *testing.T, nodes int) (c *cluster.Cluster, program string) {
	c = cluster.Require(t, cluster.Config{Nodes: nodes})
	program = filepath.Join(c.Shared(), "mender")
	require.NoError(t, product.Program(program, "ibrun/test/cluster/mender"))
	return c, program
}

// Inner agents of a tree of depth three are killed, alone and with their reapers: their children go
// on below the agent above. Nothing of what the ranks of other nodes print is lost or doubled, and
// all agree which collective has failed.
func TestLostAgent(t *testing.T) {
	c, program := mender(t, 10)
	for _, of := range []struct {
		node int
		both bool
	}{{1, false}, {2, true}} {
		const lines = 60
		j := start(t, c, "--on-agent-loss", "repair", "--fanout", "2", "-n", "20", "--hosts", "node[0001-0010]:2",
			program, "-lines", strconv.Itoa(lines))
		j.until("rank 19 line 10 ")
		node := fmt.Sprintf("node%04d", of.node)
		pids := j.processes(node, role(reaper.Agent))
		if of.both {
			pids = append(pids, j.processes(node, role(reaper.Role))...)
		}
		j.kill(pids...)
		j.end(20, 2, lines, map[int]bool{of.node - 1: true})
		require.Equal(t, 125, j.cmd.ProcessState.ExitCode(), j.stderr.String())
		require.Contains(t, j.stderr.String(), node)
		_, why := j.same(18)
		require.Regexp(t, fmt.Sprintf("ranks? %d", 2*of.node-2), why)
	}
}

// The ssh client of a session is killed, and nothing else: its agent is found, and no rank notices.
func TestLostSession(t *testing.T) {
	c, program := mender(t, 7)
	const lines = 60
	j := start(t, c, "--on-agent-loss", "repair", "--ssh", "exec", "--fanout", "2", "-n", "7", "--hosts",
		"node[0001-0007]", program, "-lines", strconv.Itoa(lines))
	j.until("rank 6 line 10 ")
	isSSH := func(argv []string) bool { return len(argv) > 0 && argv[0] == "ssh" }
	j.kill(j.processes("node0001", isSSH)[0])
	j.until("rank 6 line 25 ")
	j.kill(j.processes(cluster.FrontName, isSSH)[0])
	j.end(7, 1, lines, nil)
	require.Equal(t, 0, j.cmd.ProcessState.ExitCode(), j.stderr.String())
	joined, why := j.same(7)
	require.Equal(t, "<nil>", why)
	require.Greater(t, joined, leastCollectives)
}

// Where a session takes four and a half seconds, a lost one is replaced as well: who makes the new
// one knows how long the first took, and so do agents below the root, which wait for it.
func TestSlowSessions(t *testing.T) {
	c, program := mender(t, 2)
	const lines = 40
	slow := filepath.Join(c.Shared(), "slow")
	require.NoError(t, executable.Write(slow, []byte("#!/bin/sh\nsleep 4.5\nexec ssh \"$@\"\n")))
	j := start(t, c, "--on-agent-loss", "repair", "--launcher-exec", slow, "-n", "2", "--hosts", "node[0001-0002]",
		program, "-lines", strconv.Itoa(lines))
	j.until("rank 0 line 10 ")
	j.until("rank 1 line 10 ")
	isSSH := func(argv []string) bool { return len(argv) > 0 && argv[0] == "ssh" }
	j.kill(j.processes(cluster.FrontName, isSSH)[0])
	j.end(2, 1, lines, nil)
	require.Equal(t, 0, j.cmd.ProcessState.ExitCode(), j.stderr.String())
}

// fences is a client of PMI that puts a value, waits for all and gets that of another rank, again
// and again.
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

// The fences of PMI go on when a session below the root and one below another agent are lost.
func TestFences(t *testing.T) {
	c := cluster.Require(t, cluster.Config{Nodes: 7})
	const rounds = 60
	j := start(t, c, "--on-agent-loss", "repair", "--ssh", "exec", "--fanout", "2", "-n", "7", "--hosts",
		"node[0001-0007]", "sh", "-c", fences, "sh", strconv.Itoa(rounds))
	j.until("rank 6 line 5 ")
	isSSH := func(argv []string) bool { return len(argv) > 0 && argv[0] == "ssh" }
	j.kill(j.processes(cluster.FrontName, isSSH)[0])
	j.until("rank 6 line 15 ")
	j.kill(j.processes("node0001", isSSH)[0])
	j.end(7, 1, rounds, nil)
	require.Equal(t, 0, j.cmd.ProcessState.ExitCode(), j.stderr.String())
}

// printed is a line of a rank, and when it was printed.
var printed = regexp.MustCompile(`rank (\d+) line \d+ \w+ of (\d+)\n`)

// An agent with a third of all nodes below it is killed. All agents below it have a new parent
// within three seconds: from then on the lines of their ranks come.
func TestLarge(t *testing.T) {
	c, program := mender(t, *nodes)
	lines := 60 + 5**nodes
	j := start(t, c, "--on-agent-loss", "repair", "--tree", "kary:3", "-n", strconv.Itoa(*nodes), "--hosts",
		fmt.Sprintf("node[0001-%04d]", *nodes), program, "-lines", strconv.Itoa(lines))
	j.until(fmt.Sprintf("rank %d line 20 ", *nodes-1))
	killed := j.kill(j.processes("node0001", role(reaper.Agent))...)
	from := len(j.stdout.String())
	all := func() bool { // each has printed since then: what comes now may have been under way
		fresh := map[string]bool{"0": true}
		for _, line := range printed.FindAllStringSubmatch(j.stdout.String()[from:], -1) {
			if ms, err := strconv.ParseInt(line[2], 10, 64); err == nil && ms > killed.UnixMilli() {
				fresh[line[1]] = true
			}
		}
		return len(fresh) == *nodes
	}
	require.Eventually(t, all, time.Minute, 50*time.Millisecond)
	took := time.Since(killed)
	t.Logf("%d nodes: the lines of all ranks below a killed agent came again after %v", *nodes,
		took.Round(time.Millisecond))
	require.Less(t, took, 3*time.Second)
	j.end(*nodes, 1, lines, map[int]bool{0: true})
	require.Equal(t, 125, j.cmd.ProcessState.ExitCode(), j.stderr.String())
	_, why := j.same(*nodes - 1)
	require.Contains(t, why, "rank 0")
}

// The ranks of a lost inner node start again in the repaired tree: on their node if only its agent
// is killed, on a spare if the node is cut off. The others go on, nothing of theirs is lost or
// doubled, and the job succeeds.
func TestRelaunched(t *testing.T) {
	c, program := mender(t, 10)
	for _, cut := range []bool{false, true} {
		lines, on, args := 200, "node0001", []string{"--on-failure", "restart", "--fanout", "2", "-n", "18", "--hosts",
			"node[0001-0010]:2", "--kill-grace", "1"}
		if cut {
			lines, on, args = 800, "node0010", append(args, "--spares", "1")
		} else {
			args = append(args, "--timeout", "100")
		}
		script := `echo "start $IBRUN_RESTART of $IBRUN_RANK on $(hostname)"; exec "$@"`
		j := start(t, c, append(args, "sh", "-c", script, "sh", program, "-lines", strconv.Itoa(lines))...)
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
		require.Equal(t, 0, j.cmd.ProcessState.ExitCode(), j.stderr.String())
		require.Equal(t, 20, strings.Count(j.stdout.String(), "start "), j.stdout.String())
		require.Contains(t, j.stderr.String(), "its ranks start again (restart 1)")
		require.Equal(t, cut, strings.Contains(j.stderr.String(), "spare node0010 takes the place of node0001"))
	}
}
