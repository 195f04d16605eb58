//go:build mpi

package mpi

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/fleet/suite"
	"ibrun/test/launch"
)

// TestMPICH runs unmodified programs of MPICH as ranks, as children of a shell, and as several programs of one job. In
// each case all ranks must form one MPI job. With --mpi none each rank must form an MPI job of its own.
func TestMPICH(t *testing.T) {
	program := mpich(t)
	const all = "hello+ring+collectives+names"
	ibrun(t, "-n", "4", program, all).Went(t, suite.MPIAnswers(4, all))
	ibrun(t, "-n", "2", "sh", "-c", `"$0" ring; exit $?`, program).Went(t, suite.MPIAnswers(2, "ring"), "behind a shell")
	ibrun(t, "-n", "1", program, ":", "-n", "1", program).Went(t, suite.MPIAnswers(2, "hello"), "two programs")
	o := ibrun(t, onHosts("--tree kary:2 -n 3 -H a:2,b "+program+" collectives : -n 3 -H c:2,d "+program+
		" collectives : -n 1 -H a:4 "+program+" collectives")...)
	o.Went(t, suite.MPIAnswers(7, "collectives"), "each program has its hosts")
	o = ibrun(t, "--mpi", "none", "-n", "2", program, "hello")
	require.Equal(t, 2, strings.Count(o.Stdout, "rank 0 of 1: hello\n"), o.Stderr)
}

// TestMPICHEnds runs programs whose rank 1 ends without MPI_Finalize. The job must end with the exit code and the
// message of mpiEnds. This must hold if ranks inherit a connection to their agent, and if they connect to its port
// (--pmi-port).
func TestMPICHEnds(t *testing.T) {
	for _, c := range mpiEnds {
		args := append([]string{"-n", "2", mpich(t)}, strings.Fields(c.args)...)
		c.judge(t, ibrun(t, args...))
		c.judge(t, ibrun(t, append([]string{"--pmi-port"}, args...)...))
	}
	ibrun(t, "--pmi-port", "-n", "3", mpich(t), "ring+names").Went(t, suite.MPIAnswers(3, "ring+names"))
}

// mpiEnd describes how rank 1 of testdata/mpi.c ends without MPI_Finalize: the arguments of the program, a part of the
// message that ibrun must print, and the exit code of ibrun.
type mpiEnd struct {
	args, hint string
	code       int
}

var mpiEnds = []mpiEnd{
	{"abort 7", "aborted the job with code 7", 7},
	{"abort 0", "aborted the job with code 0", 0},
	{"leave", "exited with code 0, and without MPI_Finalize", 1},
	{"die", "was killed by signal 6 (ABRT)", 134},
}

func (c mpiEnd) judge(t *testing.T, o launch.Outcome) {
	t.Helper()
	require.Equal(t, c.code, o.Code, "%s: %s", c.args, o.Stderr)
	require.Contains(t, o.Stderr, c.hint)
	require.Contains(t, o.Stderr, "ibrun: rank 1 on ")
	require.Equal(t, 1, strings.Count(o.Stderr, "ibrun: "), o.Stderr)
}

// TestMPICHCounts checks the numbers of PMI requests that --stats reports for MPICH with n ranks on k nodes. Each rank
// puts its address. On each node with several ranks, one rank also puts the name of their shared memory and the other
// ranks get this name. One rank of each node gets the addresses of all n ranks, and each rank gets the mapping of ranks
// to nodes. Each rank takes part in three barriers, or in four if a node has several ranks.
func TestMPICHCounts(t *testing.T) {
	for _, ranks := range [][]int{{3}, {1, 1}, {2, 2, 1}} {
		n, k, crowded, barriers := 0, len(ranks), 0, 3
		var hosts []string
		for i, r := range ranks {
			hosts = append(hosts, fmt.Sprintf("h%d:%d", i, r))
			n += r
			if r > 1 {
				crowded++
				barriers = 4
			}
		}
		o := ibrun(t, "--launcher", "local", "--hosts", strings.Join(hosts, ","), "-n", fmt.Sprint(n), "--stats=json",
			mpich(t), "hello")
		require.Equal(t, 0, o.Code, o.Stderr)
		var seen struct{ Sums map[string]int }
		require.NoError(t, json.Unmarshal([]byte(o.Stderr), &seen), o.Stderr)
		require.Equal(t, n, seen.Sums["ranks"], ranks)
		require.Equal(t, n+crowded, seen.Sums["pmi_puts"], ranks)
		require.Equal(t, n*k+(n-k)+n, seen.Sums["pmi_gets"], ranks)
		require.Equal(t, barriers*n, seen.Sums["pmi_fences"], ranks)
	}
}

// TestKeepGoingMPI runs jobs with --keep-going. If a rank dies between MPI_Init and MPI_Finalize, ibrun must end the
// job, because the remaining ranks would wait for the dead rank for ever. If a rank fails after MPI_Finalize, the
// remaining ranks must go on.
func TestKeepGoingMPI(t *testing.T) {
	for library, path := range map[string]string{"MPICH": mpich(t), "Open MPI": openMPI(t)} {
		o := ibrun(t, "--keep-going", "-n", "2", path, "spin", "fall")
		require.Equal(t, 137, o.Code, "%s: %s", library, o.Stderr)
		require.Contains(t, o.Stderr,
			"was killed by signal 9 (KILL) before MPI_Finalize: the job ends despite --keep-going", library)
		o = ibrun(t, "--keep-going", "-n", "2", path, "leave")
		require.Equal(t, 1, o.Code, "%s: %s", library, o.Stderr)
		require.Contains(t, o.Stderr, "exited with code 0, and without MPI_Finalize", library)
		o = ibrun(t, "--keep-going", "-n", "2", "sh", "-c",
			`"$0" hello; [ $RANK = 1 ] && exit 5; sleep 1; echo on`, path)
		require.Equal(t, 5, o.Code, "%s: %s", library, o.Stderr)
		require.Equal(t, 1, strings.Count(o.Stdout, "on\n"), "%s: %s", library, o.Stdout)
		require.NotContains(t, o.Stderr, "despite", library)
	}
}

// TestMutePrograms runs a program that is linked with MPICH but does not call MPI_Init. ibrun must warn that no rank
// has used PMI. With --mpi none it must not warn.
func TestMutePrograms(t *testing.T) {
	o := ibrun(t, "--launcher", "local", "--hosts", "a,b", mpich(t), "mute")
	require.Equal(t, 0, o.Code, o.Stderr)
	require.Regexp(t,
		`^ibrun: no rank said a word of PMI, though the program is linked with libmpich\.so\.12: [^\n]*\n$`, o.Stderr)
	require.Empty(t, ibrun(t, "-n", "2", "--mpi", "none", mpich(t), "mute").Stderr)
}

// Patterns of the paths at which the Debian packages scalapack-mpi-test and libcoarrays-mpich-dev install programs of
// MPICH.
const (
	scalapack = "/usr/lib/*-linux-gnu/scalapack/mpich-tests/"
	coarrays  = "/usr/lib/*-linux-gnu/open-coarrays/mpich/bin/OpenCoarrays-*-tests/"
)

// TestPrograms runs programs from Debian packages that use MPICH, with several ranks on one node. Each job must exit
// with code 0 and print that the test has passed.
func TestPrograms(t *testing.T) {
	matrix, err := os.ReadFile("testdata/QR.dat")
	require.NoError(t, err)
	for _, c := range []struct{ ranks, program, args, says string }{
		{"2", "/usr/bin/NPmpich2", "-l 1 -u 8195 -n 200 -o np.out", "8195 bytes    200 times"},
		{"2", scalapack + "xdqr", "", "8 tests completed and passed residual checks"}, // reads QR.dat
		{"4", coarrays + "co_sum_test", "", "Test passed."},
		{"4", coarrays + "atomics", "", "Test passed"},
	} {
		found, _ := filepath.Glob(c.program)
		require.Len(t, found, 1, "%s: packages netpipe-mpich2, scalapack-mpi-test and libcoarrays-mpich-dev are needed",
			c.program)
		cmd := command(t, append([]string{"-n", c.ranks, found[0]}, strings.Fields(c.args)...)...)
		require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "QR.dat"), matrix, 0o666))
		o := launch.Finish(t, cmd)
		require.Equal(t, 0, o.Code, "%v: %s", c.program, o.Stderr)
		require.Equal(t, 1, strings.Count(o.Stdout+o.Stderr, c.says), "%s\n%s", o.Stdout, o.Stderr)
	}
}

// TestControlMPI runs jobs in which ranks 0 and 2 wait in MPI_Init for rank 1, which does not call it. "ibrun ctl
// ranks" must report that rank 1 is missing. "ibrun ctl stacks" must show the stacks of all ranks. The stacks are
// tested only with MPICH, because a debugger takes seconds to read the symbols of Open MPI.
func TestControlMPI(t *testing.T) {
	for _, path := range []string{openMPI(t), mpich(t)} {
		r := launch.Start(t, "-n", "3", "--launcher", "local", "--hosts", "a,b:2", "--bind-to", "none", "sh", "-c",
			`[ $IBRUN_RANK = 1 ] && exec sleep 600; exec "$0" hello`, path)
		r.Until(`2 ranks have waited for [0-9.]+ s; missing: rank 1 on b \(process \d+, in nanosleep\)`, "ranks")
		if path == mpich(t) {
			stacks := r.Until(`(?m)^2 ranks: 0,2 \(in `, "stacks")
			require.Regexp(t, `(?m)^1 rank: 1 \(`, stacks)
			require.Regexp(t, `2 ranks.*\n.* <- .*`, stacks, "package gdb is needed")
			require.Contains(t, stacks, "nanosleep")
		}
		r.End()
	}
}

// TestRestartAllOfMPI runs jobs with --on-failure restart-all. Rank 0 starts the MPI program at once, and rank 1 kills
// itself before it does. ibrun must start all ranks again with new PMI and PMIx servers, and the job must succeed.
func TestRestartAllOfMPI(t *testing.T) {
	script := `[ $IBRUN_RESTART = 0 -a $RANK = 1 ] && { sleep 0.5; kill -9 $$; }
exec "$0" ring`
	for name, path := range map[string]string{"pmi": mpich(t), "pmix": openMPI(t)} {
		o := ibrun(t, "--launcher", "local", "-H", "a,b", "-n", "2", "--on-failure", "restart-all", "sh", "-c", script,
			path)
		require.Equal(t, 0, o.Code, "%s: %s", name, o.Stderr)
		require.Contains(t, o.Stderr, "all ranks start again (restart 1)")
		require.Equal(t, suite.MPIAnswers(2, "ring"), launch.Lines(o.Stdout), "%s: %s", name, o.Stderr)
	}
}

// TestSpawnPMI2 runs a program that spawns three ranks with Slurm's PMI-2 library. Each new rank must have the program
// arguments and the info values of the spawn request.
func TestSpawnPMI2(t *testing.T) {
	path := compiled(t, "pmi2", "gcc", "testdata/pmi2.c", "-lpmi2")
	ibrun(t, "--launcher", "local", "--hosts", "a,b,c", "-n", "2", path).Went(t, []string{
		"child 0 of 3: x y;z; /usr; b c", "child 1 of 3: x y;z; /usr; b c", "spawn: 0, job of 16, 000"})
}
