//go:build cluster

package ssh

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
)

// Programs that others have built, between two nodes: those that mpiexec.hydra ends ten times of
// ten there. On a busy machine MPICH hangs in MPI_Finalize now and then, whoever launched it
// (docs/mpi-programs.md): a program that has said what it found and then hangs is run again, twice
// at most. One that hangs before is not.
func TestProgramsOverNodes(t *testing.T) {
	c := shared(t, 4)
	const coarrays = "/usr/lib/x86_64-linux-gnu/open-coarrays/mpich/bin/OpenCoarrays-2.10.1-tests/"
	for argv, says := range map[string]string{
		"NPmpich2 -l 1 -u 8195 -n 20 -o /dev/null": "8195 bytes     20 times",
		coarrays + "co_sum_test":                   "Test passed",
		coarrays + "atomics":                       "Test passed",
	} {
		args := append([]string{"--hosts", "node[0001-0002]", "--timeout", "60", "-x", overTCP, "--bind-to", "none"},
			strings.Fields(argv)...)
		for runs := 1; ; runs++ {
			o := ibrun(t, c, args...)
			require.Equal(t, 1, strings.Count(o.stdout+o.stderr, says), "%s: %s\n%s", argv, o.stdout, o.stderr)
			if o.code == 124 && runs < 3 {
				t.Log(argv, "hung in MPI_Finalize")
				continue
			}
			require.Equal(t, 0, o.code, "%s: %s", argv, o.stderr)
			break
		}
	}
	requireNothingLeft(t, c)
}

// on runs a command on a node and returns what it printed.
func on(t *testing.T, c *cluster.Cluster, node string, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := c.Exec(ctx, node, argv...).Output()
	require.NoError(t, err, "%s: %v", node, argv)
	return string(bytes.TrimSpace(out))
}

// running are the processes on a node that run a program, as this machine counts.
func running(t *testing.T, c *cluster.Cluster, node, program string) (pids []int) {
	all, err := c.Processes(node)
	require.NoError(t, err)
	for _, p := range all {
		if len(p.Argv) > 0 && p.Argv[0] == program {
			pids = append(pids, p.Pid)
		}
	}
	return pids
}

// A rank killed in the middle of a loop of Allreduce on four nodes: the job ends,
// says who it was, and leaves neither processes nor shared memory.
func TestKilledInAllreduce(t *testing.T) {
	c := cluster.Require(t, cluster.Config{Nodes: 4})
	program := mpiProgram(t, c)
	for _, perNode := range []string{"1", "2"} {
		j := start(t, c, "--hosts", "node[0001-0004]", "-ppn", perNode, "--timeout", "150", "-x", overTCP, "--bind-to",
			"none", program, "spin")
		await(t, "it has added up a hundred times", func() bool { return strings.Contains(j.out.String(), "spinning") })
		pids := running(t, c, "node0003", program)
		require.Equal(t, perNode, fmt.Sprint(len(pids)))
		require.NoError(t, syscall.Kill(pids[0], syscall.SIGKILL))
		o := j.wait()
		require.Equal(t, 137, o.code, o.stderr)
		// others may see the end of their connection, and MPICH tells
		ours := regexp.MustCompile(`(?m)^ibrun: .*\n`).FindAllString(o.stderr, -1)
		require.Len(t, ours, 1, o.stderr)
		require.Regexp(t, `^ibrun: rank (2|4|5) on node0003 was killed by signal 9 \(KILL\)\n$`, ours[0])
		for _, node := range c.Nodes() {
			await(t, "no rank is left", func() bool { return len(running(t, c, node, program)) == 0 })
			require.Empty(t, on(t, c, node, "ls", "/dev/shm"), node)
		}
	}
	requireNothingLeft(t, c)
}

// An agent killed in the same loop: MPICH's ranks elsewhere see their connections end
// and exit with 15, and some of that is heard of before the loss, which is the cause.
func TestAgentKilledInAllreduce(t *testing.T) {
	c := shared(t, 4)
	program := mpiProgram(t, c)
	for range 2 {
		j := start(t, c, "--hosts", "node[0001-0004]", "--tree", "chain", "--timeout", "150", "-x", overTCP,
			"--bind-to", "none", program, "spin")
		await(t, "it has added up a hundred times", func() bool { return strings.Contains(j.out.String(), "spinning") })
		require.NoError(t, syscall.Kill(agentOf(t, c, "node0003"), syscall.SIGKILL))
		o := j.wait()
		require.Equal(t, 125, o.code, o.stderr)
		require.Contains(t, o.stderr, "the agent on node0003 was lost")
	}
	requireNothingLeft(t, c)
}

// Ranks killed before their peers have opened their shared memory: what they
// have made on each of their nodes is removed.
func TestSharedMemoryOverNodes(t *testing.T) {
	c := cluster.Require(t, cluster.Config{Nodes: 3})
	const program = `
f=/dev/shm/left-by-$RANK; : >$f
value=$(printf %s $f | od -An -v -tx1 | tr -d ' \n')
ask() { printf '%s\n' "$1" >&3; read -r answer <&3; }
ask "cmd=init pmi_version=1 pmi_subversion=1"
ask "cmd=put kvsname=kvs_$IBRUN_JOB_ID key=k$RANK value=$value"
ask "cmd=barrier_in"
ls $f
[ $RANK = 3 ] && kill -9 $$
exec sleep 1000`
	o := ibrun(t, c, "--hosts", "node[0001-0003]", "-ppn", "2", "sh", "-c", program)
	require.Equal(t, 137, o.code, o.stderr)
	require.Contains(t, o.stdout, "/dev/shm/left-by-3\n")
	require.Equal(t, "ibrun: rank 3 on node0002 was killed by signal 9 (KILL)\n", o.stderr)
	for _, node := range c.Nodes() {
		require.Empty(t, on(t, c, node, "ls", "/dev/shm"), node)
	}
}
