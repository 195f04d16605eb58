package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/product"
)

// mpiProgram compiles testdata/mpi.c with MPICH's compiler.
func mpiProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mpi")
	out, err := exec.Command("mpicc.mpich", "-o", path, "testdata/mpi.c").CombinedOutput()
	require.NoError(t, err, "packages mpich and libmpich-dev are needed: %s", out)
	return path
}

// pmiClient builds the PMI client that needs no MPI library.
func pmiClient(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pmi")
	require.NoError(t, product.Program(path, "ibrun/test/pmi"))
	return path
}

// Stock MPICH programs, with nothing recompiled for ibrun.
func TestMPICH(t *testing.T) {
	program := mpiProgram(t)
	for _, what := range []string{"hello", "ring", "collectives", "names"} {
		o := ibrun(t, "-n", "4", program, what)
		require.Equal(t, 0, o.code, o.stderr)
		for rank := range 4 {
			require.Contains(t, string(o.stdout), fmt.Sprintf("rank %d of 4: %s\n", rank, what))
		}
	}
	o := ibrun(t, "-n", "3", "sh", "-c", `"$0" ring; exit $?`, program) // behind a shell
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, 3, strings.Count(string(o.stdout), "of 3: ring\n"))
	o = ibrun(t, "-n", "2", program, "hello", ":", "-n", "1", program, "hello") // two programs
	require.Equal(t, 3, strings.Count(string(o.stdout), "of 3: hello\n"), o.stderr)
	o = ibrun(t, apart.run(program, "collectives")...)
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, 9, strings.Count(string(o.stdout), "of 9: collectives\n"), o.stderr)
	o = ibrun(t, "--mpi", "none", "-n", "2", program, "hello")
	require.Equal(t, 2, strings.Count(string(o.stdout), "rank 0 of 1: hello\n"), o.stderr)
}

// Ranks that leave in another way than by MPI_Finalize end the job, with the
// right code and line.
func TestMPICHEnds(t *testing.T) {
	program := mpiProgram(t)
	for _, c := range mpiEnds {
		c.judge(t, ibrun(t, append([]string{"-n", "4", program}, strings.Fields(c.args)...)...))
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
	require.Equal(t, c.code, o.code, "%s: %s", c.args, o.stderr)
	require.Contains(t, o.stderr, c.hint)
	require.Contains(t, o.stderr, "ibrun: rank 1 on ")
	require.Equal(t, 1, strings.Count(o.stderr, "ibrun: "), o.stderr)
	require.Less(t, o.took, 5*time.Second)
}

// What MPICH asks for at N ranks on one node: N+1 puts, N gets for the mapping of
// ranks to nodes, N-1 for the name of the shared memory and N for the addresses,
// 4 barriers.
func TestMPICHCounts(t *testing.T) {
	const ranks = 4
	o := ibrun(t, "-n", fmt.Sprint(ranks), "--stats=json", mpiProgram(t), "hello")
	require.Equal(t, 0, o.code, o.stderr)
	var n struct{ Sums map[string]int }
	require.NoError(t, json.Unmarshal([]byte(o.stderr), &n), o.stderr)
	require.Equal(t, ranks, n.Sums["ranks"])
	require.Equal(t, ranks+1, n.Sums["pmi_puts"])
	require.Equal(t, ranks+(ranks-1)+ranks, n.Sums["pmi_gets"])
	require.Equal(t, 4*ranks, n.Sums["pmi_fences"])
}

// A PMI client over all kinds of trees: each value is what its rank has put.
func TestPMIOverTheTree(t *testing.T) {
	client := pmiClient(t)
	for _, s := range stages(t) {
		o := ibrun(t, s.run(client, "-all", "-bytes", "900")...)
		require.Equal(t, 0, o.code, "%s: %s", s.name, o.stderr)
		require.Regexp(t, `^\d+ ranks exchanged\n$`, string(o.stdout))
	}
}

// What is no PMI is named and hurts nobody else.
func TestPMINonsense(t *testing.T) {
	client := pmiClient(t)
	for _, words := range []string{"cmd=nonsense", "hello", "cmd=put key=a b=c value=d",
		"cmd=init pmi_version=1 pmi_subversion=1\ncmd=barrier_on"} {
		o := ibrun(t, "--keep-going", "-n", "1", "sh", "-c", `printf '%s\n' "$0" >&3; sleep 0.1`, words)
		require.Equal(t, 0, o.code, "%q: %s", words, o.stderr)
		require.Equal(t, 1, strings.Count(o.stderr, "\n"), "%q: %s", words, o.stderr)
		require.Contains(t, o.stderr, "rank 0: pmi-1: ")
	}
	o := ibrun(t, "-n", "3", client)
	require.Equal(t, "3 ranks exchanged\n", string(o.stdout), o.stderr)
}

// Shared memory that ranks have told each other of and left behind is removed.
func TestSharedMemoryIsRemoved(t *testing.T) {
	f, err := os.CreateTemp("/dev/shm", "ibrun-test-")
	require.NoError(t, err)
	f.Close()
	t.Cleanup(func() { os.Remove(f.Name()) })
	o := ibrun(t, "-n", "1", "sh", "-c",
		`printf 'cmd=init pmi_version=1 pmi_subversion=1\ncmd=put kvsname=kvs_%s key=k value=%s\n' "$IBRUN_JOB_ID" `+
			`"$0" >&3; sleep 0.2; kill -9 $$`,
		fmt.Sprintf("%X", f.Name()))
	require.Equal(t, 137, o.code, o.stderr)
	require.NoFileExists(t, f.Name())
}

// A rank that dies before MPI_Finalize ends the job even with --keep-going: the others would wait
// for it for ever. Ranks that have taken their leave, or never joined, fail alone.
func TestKeepGoingMPI(t *testing.T) {
	for library, path := range map[string]string{"MPICH": mpiProgram(t), "Open MPI": openMPIProgram(t)} {
		o := ibrun(t, "--keep-going", "--timeout", "30", "-n", "4", path, "spin", "fall")
		require.Equal(t, 137, o.code, "%s: %s", library, o.stderr)
		require.Contains(t, o.stderr,
			"was killed by signal 9 (KILL) before MPI_Finalize: the job ends despite --keep-going", library)
		o = ibrun(t, "--keep-going", "--timeout", "30", "-n", "3", path, "leave")
		require.Equal(t, 1, o.code, "%s: %s", library, o.stderr)
		require.Contains(t, o.stderr, "exited with code 0, and without MPI_Finalize", library)
		o = ibrun(t, "--keep-going", "--timeout", "30", "-n", "3", "sh", "-c",
			`"$0" hello; [ $RANK = 1 ] && exit 5; sleep 1; echo on`, path)
		require.Equal(t, 5, o.code, "%s: %s", library, o.stderr)
		require.Equal(t, 2, strings.Count(string(o.stdout), "on\n"), "%s: %s", library, o.stdout)
		require.NotContains(t, o.stderr, "despite", library)
	}
}
