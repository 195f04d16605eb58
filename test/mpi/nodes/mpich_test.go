//go:build mpi

package nodes

import (
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/fleet/suite"
	"ibrun/test/launch"
	"ibrun/test/waitfor"
)

// overTCP has the options of ibrun that Debian's MPICH needs for communication over TCP. Under mpiexec.hydra MPICH
// needs the same environment variable (docs/mpi-programs.md).
var overTCP = []string{"-x", "UCX_TCP_PUT_ENABLE=n"}

// mpich runs programs of MPICH on several nodes. They end with MPI_Abort, because Debian's MPICH can hang in
// MPI_Finalize. It always hangs if ranks of more than two nodes have communicated, and sometimes on two nodes. Under
// mpiexec.hydra it hangs, too.
func (b *bed) mpich(t *testing.T) {
	program := suite.MPICH(t, "../testdata/mpi.c", filepath.Join(b.Shared(), "mpich-nodes"))
	const all = "collectives+names"
	o := b.run(t, 4, 4, append(overTCP, program, all, "unfinished")...)
	require.Equal(t, 0, o.Code, o.Stderr)
	require.Equal(t, suite.MPIAnswers(4, all), launch.Lines(o.Stdout), o.Stderr)
	require.Contains(t, o.Stderr, "aborted the job with code 0\n")
	o = b.run(t, 5, 3, append(overTCP, program, "abort", "7")...)
	require.Equal(t, 7, o.Code, o.Stderr)
	t.Run("programs", b.debianPrograms)
	t.Run("killed", func(t *testing.T) { b.killedInAllreduce(t, program) })
	t.Run("agent", func(t *testing.T) { b.agentKilledInAllreduce(t, program) })
}

// debianPrograms runs programs from Debian packages that use MPICH on two nodes. Each must print that its test has
// passed. On a busy machine MPICH sometimes hangs in MPI_Finalize, under any launcher. If that happens after the
// program has reported success, the program runs again, up to two times. Under mpiexec.hydra the programs succeeded in
// ten of ten runs.
func (b *bed) debianPrograms(t *testing.T) {
	const coarrays = "/usr/lib/*-linux-gnu/open-coarrays/mpich/bin/OpenCoarrays-*-tests/"
	for _, c := range []struct{ program, args, says string }{
		{"/usr/bin/NPmpich2", "-l 1 -u 8195 -n 20 -o /dev/null", "8195 bytes     20 times"},
		{coarrays + "co_sum_test", "", "Test passed"},
		{coarrays + "atomics", "", "Test passed"},
	} {
		found, _ := filepath.Glob(c.program)
		require.Len(t, found, 1, "%s: packages netpipe-mpich2 and libcoarrays-mpich-dev are needed", c.program)
		argv := append(append(overTCP, found[0]), strings.Fields(c.args)...)
		for runs := 1; ; runs++ {
			o := b.run(t, 2, 2, argv...)
			require.Equal(t, 1, strings.Count(o.Stdout+o.Stderr, c.says), "%s: %s\n%s", c.program, o.Stdout, o.Stderr)
			if o.Code == 124 && runs < 3 {
				t.Log(c.program, "hung in MPI_Finalize")
				continue
			}
			require.Equal(t, 0, o.Code, "%s: %s", c.program, o.Stderr)
			break
		}
	}
}

// startSpin starts a job on three nodes whose ranks call MPI_Allreduce in an endless loop. It returns after the first
// 100 calls.
func (b *bed) startSpin(t *testing.T, ranks int, argv ...string) *job {
	j := b.begin(t, launch.Program, ranks, 3, append(overTCP, argv...)...)
	waitfor.Require(t, "a hundred calls of MPI_Allreduce",
		func() bool { return strings.Contains(j.stdout.String(), "spinning") })
	return j
}

// kill sends SIGKILL to one process on a node whose argument 0 or 1 is word. The test fails if there is no such
// process.
func (b *bed) kill(t *testing.T, node, word string) {
	procs, err := b.Processes(node)
	require.NoError(t, err)
	for _, p := range procs {
		if len(p.Argv) > 0 && (p.Argv[0] == word || len(p.Argv) > 1 && p.Argv[1] == word) {
			require.NoError(t, syscall.Kill(p.Pid, syscall.SIGKILL))
			return
		}
	}
	t.Fatalf("no process %s on %s", word, node)
}

// killedInAllreduce kills a rank while all ranks call MPI_Allreduce. ibrun must end the job and print one message,
// which names the killed rank. MPICH may print further lines about its connections.
func (b *bed) killedInAllreduce(t *testing.T, program string) {
	j := b.startSpin(t, 6, program, "spin")
	b.kill(t, "node0003", program)
	o := j.wait(t)
	require.Equal(t, 137, o.Code, o.Stderr)
	ours := regexp.MustCompile(`(?m)^ibrun: .*\n`).FindAllString(o.Stderr, -1)
	require.Len(t, ours, 1, o.Stderr)
	require.Regexp(t, `^ibrun: rank (4|5) on node0003 was killed by signal 9 \(KILL\)\n$`, ours[0])
}

// agentKilledInAllreduce kills an agent while all ranks call MPI_Allreduce. MPICH then ends the ranks on the remaining
// nodes with exit code 15, possibly before ibrun detects the loss of the agent. ibrun must still report the loss of the
// agent as the cause.
func (b *bed) agentKilledInAllreduce(t *testing.T, program string) {
	j := b.startSpin(t, 3, "--tree", "chain", program, "spin")
	b.kill(t, "node0003", ":agent")
	o := j.wait(t)
	require.Equal(t, 125, o.Code, o.Stderr)
	require.Contains(t, o.Stderr, "the agent on node0003 was lost")
}

// openMPIOverUCX runs Open MPI over UCX, which it also uses on InfiniBand clusters. In MPI_Finalize a rank that waits
// in the PMI barrier must still reply to ranks that close their endpoints. libpmi therefore calls the progress function
// of Open MPI while it waits. Without these calls 20 of 24 runs hung. Under mpirun none of 24 runs hung.
func (b *bed) openMPIOverUCX(t *testing.T, program string) {
	const all = "ring+collectives"
	o := b.run(t, 4, 2, "OMPI_MCA_pml=ucx", "OMPI_MCA_pml_ucx_tls=any", "OMPI_MCA_pml_ucx_devices=any", program, all)
	require.Equal(t, 0, o.Code, o.Stderr)
	require.Equal(t, suite.MPIAnswers(4, all), launch.Lines(o.Stdout), o.Stderr)
}
