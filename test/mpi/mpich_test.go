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
)

// says are the lines of all ranks of testdata/mpi.c, sorted.
func says(ranks int, what string) (lines []string) {
	for rank := range ranks {
		lines = append(lines, fmt.Sprintf("rank %d of %d: %s", rank, ranks, what))
	}
	return lines
}

// went requires that a job has ended well and printed these lines, in any order, and nothing else.
func (o outcome) went(t *testing.T, lines []string, context ...any) {
	t.Helper()
	require.Equal(t, 0, o.code, "%v: %s", context, o.stderr)
	require.ElementsMatch(t, lines, sorted(o.stdout), "%v: %s", context, o.stderr)
	require.Empty(t, o.stderr, context)
}

// Stock MPICH programs, with nothing recompiled for ibrun.
func TestMPICH(t *testing.T) {
	program := mpich(t)
	for _, what := range []string{"hello", "ring", "collectives", "names"} {
		ibrun(t, "-n", "4", program, what).went(t, says(4, what))
	}
	ibrun(t, "-n", "3", "sh", "-c", `"$0" ring; exit $?`, program).went(t, says(3, "ring"), "behind a shell")
	ibrun(t, "-n", "2", program, "hello", ":", "-n", "1", program, "hello").went(t, says(3, "hello"), "two programs")
	o := ibrun(t, onHosts("--tree kary:2 -n 4 -H a:2,b,c "+program+" collectives : -n 3 -H b:3,d "+program+
		" collectives : -n 2 -H a:4,d "+program+" collectives")...)
	o.went(t, says(9, "collectives"), "each program has its hosts")
	o = ibrun(t, "--mpi", "none", "-n", "2", program, "hello")
	require.Equal(t, 2, strings.Count(o.stdout, "rank 0 of 1: hello\n"), o.stderr)
}

// Ranks that leave in another way than by MPI_Finalize end the job, with the right code and line,
// whether they talk to their agent by a descriptor or by a port.
func TestMPICHEnds(t *testing.T) {
	for _, c := range mpiEnds {
		c.judge(t, ibrun(t, append([]string{"-n", "4", mpich(t)}, strings.Fields(c.args)...)...))
		c.judge(t, ibrun(t, append([]string{"--pmi-port", "-n", "4", mpich(t)}, strings.Fields(c.args)...)...))
	}
	for _, what := range []string{"ring", "names"} {
		ibrun(t, "--pmi-port", "-n", "4", mpich(t), what).went(t, says(4, what))
	}
}

// mpiEnd is how an MPI program can end, and what ibrun makes of it.
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

func (c mpiEnd) judge(t *testing.T, o outcome) {
	t.Helper()
	require.Equal(t, c.code, o.code, "%s: %s", c.args, o.stderr)
	require.Contains(t, o.stderr, c.hint)
	require.Contains(t, o.stderr, "ibrun: rank 1 on ")
	require.Equal(t, 1, strings.Count(o.stderr, "ibrun: "), o.stderr)
}

// What MPICH asks for at N ranks on K nodes: N puts of an address, and one more on each node of
// several ranks for the name of their shared memory; all N addresses on each node, the name by all
// but one of its ranks, the mapping by each rank; four barriers, or three where no node has several
// ranks and nothing is shared.
func TestMPICHCounts(t *testing.T) {
	for _, ranks := range [][]int{{4}, {1, 1}, {2, 2, 1}, {1, 1, 1, 1}} {
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
		require.Equal(t, 0, o.code, o.stderr)
		var seen struct{ Sums map[string]int }
		require.NoError(t, json.Unmarshal([]byte(o.stderr), &seen), o.stderr)
		require.Equal(t, n, seen.Sums["ranks"], ranks)
		require.Equal(t, n+crowded, seen.Sums["pmi_puts"], ranks)
		require.Equal(t, n*k+(n-k)+n, seen.Sums["pmi_gets"], ranks)
		require.Equal(t, barriers*n, seen.Sums["pmi_fences"], ranks)
	}
}

// A rank that dies before MPI_Finalize ends the job even with --keep-going: the others would wait
// for it for ever. Ranks that have taken their leave, or never joined, fail alone.
func TestKeepGoingMPI(t *testing.T) {
	for library, path := range map[string]string{"MPICH": mpich(t), "Open MPI": openMPI(t)} {
		o := ibrun(t, "--keep-going", "-n", "4", path, "spin", "fall")
		require.Equal(t, 137, o.code, "%s: %s", library, o.stderr)
		require.Contains(t, o.stderr,
			"was killed by signal 9 (KILL) before MPI_Finalize: the job ends despite --keep-going", library)
		o = ibrun(t, "--keep-going", "-n", "3", path, "leave")
		require.Equal(t, 1, o.code, "%s: %s", library, o.stderr)
		require.Contains(t, o.stderr, "exited with code 0, and without MPI_Finalize", library)
		o = ibrun(t, "--keep-going", "-n", "3", "sh", "-c",
			`"$0" hello; [ $RANK = 1 ] && exit 5; sleep 1; echo on`, path)
		require.Equal(t, 5, o.code, "%s: %s", library, o.stderr)
		require.Equal(t, 2, strings.Count(o.stdout, "on\n"), "%s: %s", library, o.stdout)
		require.NotContains(t, o.stderr, "despite", library)
	}
}

// A program of MPICH that never comes to MPI_Init is seen by what it is linked with.
func TestMutePrograms(t *testing.T) {
	o := ibrun(t, "--launcher", "local", "--hosts", "a,b,c", mpich(t), "mute")
	require.Equal(t, 0, o.code, o.stderr)
	require.Regexp(t,
		`^ibrun: no rank said a word of PMI, though the program is linked with libmpich\.so\.12: [^\n]*\n$`, o.stderr)
	require.Empty(t, ibrun(t, "-n", "3", "--mpi", "none", mpich(t), "mute").stderr)
}

// The folders of programs of MPICH that Debian ships, where "*" is the machine and the version.
const (
	scalapack = "/usr/lib/*-linux-gnu/scalapack/mpich-tests/"
	coarrays  = "/usr/lib/*-linux-gnu/open-coarrays/mpich/bin/OpenCoarrays-*-tests/"
)

// Programs that somebody else has built, several ranks on this node.
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
		o := finish(t, cmd)
		require.Equal(t, 0, o.code, "%v: %s", c.program, o.stderr)
		require.Equal(t, 1, strings.Count(o.stdout+o.stderr, c.says), "%s\n%s", o.stdout, o.stderr)
	}
}

// Stock programs of MPICH and Open MPI: one rank is not in MPI_Init. Stacks of a debugger are those
// of the programs.
func TestControlMPI(t *testing.T) {
	for name, program := range map[string]string{"MPICH": mpich(t), "Open MPI": openMPI(t)} {
		r := controlled(t, "-n", "4", "--launcher", "local", "--hosts", "a,b:3", "--bind-to", "none", "sh", "-c",
			`[ $IBRUN_RANK = 2 ] && exec sleep 600; exec "$0" hello`, program)
		r.until(`3 ranks have waited for [0-9.]+ s; missing: rank 2 on b \(process \d+, in nanosleep\)`, "ranks")
		stacks := r.until(`(?m)^3 ranks: 0-1,3 \(in `, "stacks")
		require.Regexp(t, `(?m)^1 rank: 2 \(`, stacks, name)
		require.Regexp(t, `3 ranks.*\n.* <- .*`, stacks, "%s: package gdb is needed", name)
		require.Contains(t, stacks, "nanosleep", name)
		r.end()
	}
}

// Unmodified MPI programs start again too, by PMI and by PMIx: their servers are made new. Rank 1 is
// killed once rank 0 is in MPI_Init, or before.
func TestRestartAllOfMPI(t *testing.T) {
	script := `[ $IBRUN_RESTART = 0 -a $RANK = 1 ] && { sleep 0.5; kill -9 $$; }
exec "$0" ring`
	for name, path := range map[string]string{"pmi": mpich(t), "pmix": openMPI(t)} {
		o := ibrun(t, "--launcher", "local", "-H", "a,b", "-n", "4", "--on-failure", "restart-all", "sh", "-c", script,
			path)
		require.Equal(t, 0, o.code, "%s: %s", name, o.stderr)
		require.Contains(t, o.stderr, "all ranks start again (restart 1)")
		require.ElementsMatch(t, says(4, "ring"), sorted(o.stdout), "%s: %s", name, o.stderr)
	}
}

// A program that runs another one by Slurm's PMI-2 library sees its arguments and environment whole.
func TestSpawnPMI2(t *testing.T) {
	path := compiled(t, "pmi2", "gcc", "testdata/pmi2.c", "-lpmi2")
	ibrun(t, "--launcher", "local", "--hosts", "a,b,c", "-n", "2", path).went(t, []string{
		"child 0 of 3: x y;z; /usr; b c", "child 1 of 3: x y;z; /usr; b c", "spawn: 0, job of 16, 000"})
}
