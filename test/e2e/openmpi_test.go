package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/executable"
	"ibrun/internal/libpmi"
	"ibrun/test/product"
)

// openMPIProgram compiles testdata/mpi.c with Open MPI's compiler.
func openMPIProgram(t *testing.T) string {
	t.Helper()
	require.NotNil(t, libpmi.Image(), "make libpmi puts it where the binary takes it from")
	path := filepath.Join(t.TempDir(), "openmpi")
	out, err := exec.Command("mpicc.openmpi", "-o", path, "testdata/mpi.c").CombinedOutput()
	require.NoError(t, err, "packages openmpi-bin and libopenmpi-dev are needed: %s", out)
	return path
}

// Stock programs of Open MPI, found out by what they are linked with, or behind
// a shell where nobody can tell.
func TestOpenMPI(t *testing.T) {
	program := openMPIProgram(t)
	for _, what := range []string{"hello", "ring", "collectives"} {
		o := ibrun(t, "-n", "4", program, what)
		require.Equal(t, 0, o.code, o.stderr)
		require.Empty(t, o.stderr)
		for rank := range 4 {
			require.Contains(t, string(o.stdout), fmt.Sprintf("rank %d of 4: %s\n", rank, what))
		}
	}
	for name, args := range map[string][]string{
		"behind a shell": {"-n", "3", "sh", "-c", `"$0" collectives; exit $?`, program},
		"as was said":    {"-n", "3", "--mpi", "openmpi", program, "collectives"},
		"two programs":   {"-n", "2", program, "collectives", ":", "-n", "1", program, "collectives"},
		"several agents": {"-n", "3", "--launcher", "local", "--hosts", "a,b", program, "collectives"},
		"dealt": {"-n", "3", "--launcher", "local", "--hosts", "a:2,b", "--map-by", "node", program,
			"collectives"},
	} {
		o := ibrun(t, args...)
		require.Equal(t, 0, o.code, "%s: %s", name, o.stderr)
		require.Equal(t, 3, strings.Count(string(o.stdout), "of 3: collectives\n"), "%s: %s", name, o.stderr)
	}
	o := ibrun(t, "-n", "12", program, "collectives") // more than there are CPUs, here
	require.Equal(t, 12, strings.Count(string(o.stdout), "of 12: collectives\n"), o.stderr)
}

// An interpreter tells nothing of the library that its script will load: Debian's
// mpi4py is built with Open MPI. The python is the distribution's, as mpi4py is.
func TestMPI4Py(t *testing.T) {
	script, err := filepath.Abs("testdata/peers.py")
	require.NoError(t, err)
	o := ibrun(t, "-n", "3", "/usr/bin/python3", script)
	require.Equal(t, 0, o.code, o.stderr)
	for rank := range 3 {
		require.Contains(t, string(o.stdout), fmt.Sprintf("rank %d of 3: mpi4py\n", rank))
	}
}

// What was found out is told under -v, once, by the first node.
func TestMPIDetected(t *testing.T) {
	o := ibrun(t, "-v", "-n", "4", "--launcher", "local", "--hosts", "a,b", openMPIProgram(t), "hello")
	require.Equal(t, 1, strings.Count(o.stderr, "is linked with libmpi.so.40: Open MPI, which gets PMIx and libpmi\n"),
		o.stderr)
	require.Contains(t, o.stderr, "ibrun: a: ")
	o = ibrun(t, "-v", "-n", "2", mpiProgram(t), "hello")
	require.Equal(t, 1, strings.Count(o.stderr, "is linked with libmpich.so.12: MPICH, which speaks PMI\n"), o.stderr)
	o = ibrun(t, "-v", "-n", "2", "true")
	require.Equal(t, 1, strings.Count(o.stderr, "ibrun: "+hostname(t)+": true is not linked with an MPI library"),
		o.stderr)
}

func hostname(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	require.NoError(t, err)
	return name
}

// The environment of Open MPI: not for programs of MPICH, and the user's own
// word counts.
func TestOpenMPIEnvironment(t *testing.T) {
	variables := func(args ...string) string {
		o := ibrun(t, append(args, "env")...)
		require.Equal(t, 0, o.code, o.stderr)
		return string(o.stdout)
	}
	crowd := fmt.Sprint(runtime.NumCPU() + 1)
	require.Regexp(t, `(?m)^FLUX_PMI_LIBRARY_PATH=/proc/\d+/fd/\d+$`, variables("-n", "2"))
	require.Regexp(t, `(?m)^FLUX_JOB_ID=\d+$`, variables("-n", "2", "FLUX_JOB_ID=mine"))
	require.Regexp(t, `(?m)^FLUX_JOB_ID=\d+$`, variables("-n", "1"))
	require.Contains(t, variables("-n", "1", "--mpi", "openmpi"), "FLUX_")
	require.NotContains(t, variables("-n", "1", "--mpi", "openmpi"), "yield_when_idle")
	require.Contains(t, variables("-n", crowd), "OMPI_MCA_mpi_yield_when_idle=1\n")
	require.NotContains(t, variables("-n", crowd, "OMPI_MCA_mpi_yield_when_idle=0"), "yield_when_idle=1\n")
	require.NotContains(t, variables("-n", crowd, "--mpi", "mpich"), "FLUX_")
	require.NotContains(t, variables("-n", crowd, "--mpi", "none"), "FLUX_")
}

// Ranks that leave in another way than by MPI_Finalize end the job, with the
// right code and line, and leave no file.
func TestOpenMPIEnds(t *testing.T) {
	program := openMPIProgram(t)
	for _, c := range append(slices.Clone(mpiEnds), mpiEnd{"spin", "was killed by signal 9 (KILL)", 137}) {
		script := `[ $RANK != 0 ] || echo $FLUX_JOB_ID; [ "$1 $RANK" != "spin 1" ] || { sleep 0.5; kill -9 $$; } & ` +
			`exec "$0" "$@"`
		o := ibrun(t, append([]string{"-n", "4", "sh", "-c", script, program}, strings.Fields(c.args)...)...)
		c.judge(t, o)
		var id uint32
		_, err := fmt.Sscan(string(o.stdout), &id)
		require.NoError(t, err, "%s: %s", c.args, o.stdout)
		require.Empty(t, leftOvers(t, id), c.args)
	}
}

// An ibrun that its user may execute but not read serves Open MPI all the same.
func TestOpenMPIUnreadable(t *testing.T) {
	built := openMPIProgram(t)
	dir, err := os.MkdirTemp("", "ibrun-e2e-open")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	for name, from := range map[string]string{"ibrun": program, "openmpi": built} {
		b, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, executable.Write(dir+"/"+name, b))
	}
	require.NoError(t, os.Chmod(dir+"/ibrun", 0o111))
	c := command(t, "-n", "2", dir+"/openmpi", "ring")
	c.Path, c.Dir, c.Env = dir+"/ibrun", dir, append(os.Environ(), "HOME="+dir)
	if os.Getuid() == 0 {
		const nobody = 65534
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	o := finish(t, c)
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, 2, strings.Count(string(o.stdout), "of 2: ring\n"))
}

// leftOvers are files of a job of Open MPI.
func leftOvers(t *testing.T, id uint32) []string {
	t.Helper()
	segments, err := filepath.Glob(fmt.Sprintf("/dev/shm/vader_segment.*.%x.*", id))
	require.NoError(t, err)
	folders, err := filepath.Glob(fmt.Sprintf("/tmp/ompi.*/jf.%d/%d", id>>16, id&0xffff))
	require.NoError(t, err)
	return append(segments, folders...)
}

// A binary that was built without a C compiler says so, and runs the rest.
func TestWithoutLibpmi(t *testing.T) {
	program := openMPIProgram(t)
	dir := t.TempDir()
	library, err := filepath.Abs("../../internal/libpmi/built/libpmi.so")
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{library: ""}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir+"/overlay.json", overlay, 0o600))
	require.NoError(t, product.Program(dir+"/ibrun", "ibrun/cmd/ibrun", "-ldflags", "-s -w", "-overlay",
		dir+"/overlay.json"))
	const says = "this build of ibrun has no libpmi, by which programs of Open MPI find each other: try make build " +
		"where there is gcc\n"
	run := func(args ...string) outcome {
		c := command(t, args...)
		c.Path = dir + "/ibrun"
		return finish(t, c)
	}
	o := run("--mpi", "openmpi", "-n", "2", program)
	require.Equal(t, 2, o.code)
	require.Contains(t, o.stderr, says)
	require.Empty(t, o.stdout)
	o = run("-n", "2", program, "ring")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, 2, strings.Count(string(o.stdout), "of 2: ring\n"), "by PMIx")
	o = run("-n", "2", "true")
	require.Empty(t, o.stderr)
	require.Less(t, o.took, 10*time.Second)
}
