//go:build mpi

package mpi

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/executable"
	"ibrun/test/fleet/suite"
	"ibrun/test/launch"
	"ibrun/test/product"
	"ibrun/test/waitfor"
)

// TestOpenMPI runs an unmodified program that is linked with Open MPI. The program must succeed if ibrun detects the
// library, if a shell starts the program and ibrun cannot detect the library, and if --mpi names the library. The
// program must also succeed twice in one job, and in a job with two agents.
func TestOpenMPI(t *testing.T) {
	program := openMPI(t)
	all := "hello+ring+collectives"
	ibrun(t, "-n", "6", program, all).Went(t, suite.MPIAnswers(6, all), "more ranks than CPUs")
	for name, args := range map[string][]string{
		"behind a shell": {"-n", "3", "sh", "-c", `"$0" collectives; exit $?`, program},
		"--mpi openmpi":  {"-n", "3", "--mpi", "openmpi", program, "collectives"},
		"two programs":   {"-n", "2", program, "collectives", ":", "-n", "1", program, "collectives"},
		"several agents": {"-n", "3", "--launcher", "local", "--hosts", "a:2,b", program, "collectives"},
	} {
		ibrun(t, args...).Went(t, suite.MPIAnswers(3, "collectives"), name)
	}
}

// TestMPI4Py runs a Python script that loads Open MPI by mpi4py. The script must succeed, although ibrun cannot detect
// that a Python script uses Open MPI. The test needs the Debian packages python3 and python3-mpi4py.
func TestMPI4Py(t *testing.T) {
	script, err := filepath.Abs("testdata/peers.py")
	require.NoError(t, err)
	ibrun(t, "-n", "2", "/usr/bin/python3", script).Went(t, suite.MPIAnswers(2, "mpi4py"))
}

// TestMPIDetected requires that ibrun -v prints one line per job about the MPI library with which the program is
// linked. In a job on two nodes, the line must begin with the name of the first node.
func TestMPIDetected(t *testing.T) {
	o := ibrun(t, "-v", "-n", "2", "--launcher", "local", "--hosts", "a,b", openMPI(t), "mute")
	require.Equal(t, 1, strings.Count(o.Stderr, "is linked with libmpi.so.40: Open MPI, which gets PMIx and libpmi\n"),
		o.Stderr)
	require.Contains(t, o.Stderr, "ibrun: a: ")
	o = ibrun(t, "-v", "-n", "2", mpich(t), "mute")
	require.Equal(t, 1, strings.Count(o.Stderr, "is linked with libmpich.so.12: MPICH, which speaks PMI\n"), o.Stderr)
}

// TestOpenMPIEnvironment requires that ibrun sets the environment variables for Open MPI by default and with --mpi
// openmpi, and not if --mpi names another library or none. ibrun must replace the user's FLUX_JOB_ID, and must keep the
// user's OMPI_MCA_mpi_yield_when_idle.
func TestOpenMPIEnvironment(t *testing.T) {
	variables := func(args ...string) string {
		o := ibrun(t, append(args, "env")...)
		require.Equal(t, 0, o.Code, o.Stderr)
		return o.Stdout
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

	// A program that has the name of a launcher gets the variables FLUX_* only with --mpi openmpi.
	srun := filepath.Join(t.TempDir(), "srun")
	require.NoError(t, executable.Write(srun, []byte("#!/bin/sh\nenv\n")))
	require.NotContains(t, ibrun(t, "-n", "2", srun).Stdout, "FLUX_")
	require.Regexp(t, `(?m)^FLUX_JOB_ID=`, ibrun(t, "-n", "2", "--mpi", "openmpi", srun).Stdout)
}

// TestOpenMPIEnds runs programs whose rank 1 ends without MPI_Finalize, with PMIx and with libpmi. ibrun must exit with
// the code and the message that mpiEnds states, also if the rank is killed by SIGKILL. No file may remain in the
// temporary folder or in /dev/shm.
func TestOpenMPIEnds(t *testing.T) {
	const script = `[ "$1 $RANK" != "spin 1" ] || { sleep 0.5; kill -9 $$; } & exec "$0" "$@"`
	program, before := openMPI(t), sharedMemoryFiles(t)
	for _, protocol := range []string{"auto", "openmpi", "pmix"} {
		for _, c := range append(slices.Clone(mpiEnds), mpiEnd{"spin", "was killed by signal 9 (KILL)", 137}) {
			if protocol == "auto" && c.args != "spin" {
				continue // auto selects one of the other protocols
			}
			folder := t.TempDir()
			run := command(t, append([]string{"-n", "2", "--mpi", protocol, "sh", "-c", script, program},
				strings.Fields(c.args)...)...)
			run.Env = append(os.Environ(), "TMPDIR="+folder)
			c.judge(t, launch.Finish(t, run))
			pattern := folder + "/*"
			if protocol == "openmpi" { // Open MPI does not remove ompi.HOST.UID and its subfolder
				pattern = folder + "/ompi.*/jf.*/*"
			}
			left, err := filepath.Glob(pattern)
			require.NoError(t, err)
			require.Empty(t, left, "%s by %s", c.args, protocol)
			require.Equal(t, before, sharedMemoryFiles(t), "%s by %s", c.args, protocol)
		}
	}
}

// TestOpenMPIUnreadable runs ibrun as a user who may execute the file of ibrun but not read it. A program of Open MPI
// must still succeed.
func TestOpenMPIUnreadable(t *testing.T) {
	built := openMPI(t)
	dir, err := os.MkdirTemp("", "ibrun-e2e-open")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	for name, from := range map[string]string{"ibrun": launch.Program, "openmpi": built} {
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
	o := launch.Finish(t, c)
	require.Equal(t, 0, o.Code, o.Stderr)
	require.Equal(t, 2, strings.Count(o.Stdout, "of 2: ring\n"))
}

// sharedMemoryFiles returns the paths of the shared-memory files of Open MPI in /dev/shm.
func sharedMemoryFiles(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("/dev/shm/*_segment.*")
	require.NoError(t, err)
	return found
}

// TestWithoutLibpmi builds ibrun as on a machine without a C compiler, so that it does not contain libpmi. With --mpi
// openmpi this ibrun must fail with a message that says so. Without this option, programs of Open MPI must use PMIx,
// and all other programs must run without a warning.
func TestWithoutLibpmi(t *testing.T) {
	openMPI, without := openMPI(t), filepath.Join(filepath.Dir(launch.Program), "ibrun-without")
	library, err := filepath.Abs("../../internal/libpmi/built/libpmi.so")
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{library: ""}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(without+".json", overlay, 0o600))
	require.NoError(t, product.Program(without, "ibrun/cmd/ibrun", "-ldflags", "-s -w", "-overlay", without+".json"))
	run := func(args ...string) launch.Outcome {
		c := command(t, args...)
		c.Path = without
		return launch.Finish(t, c)
	}
	o := run("--mpi", "openmpi", "-n", "2", openMPI)
	require.Equal(t, 2, o.Code)
	require.Contains(t, o.Stderr, "this build of ibrun has no libpmi, by which programs of Open MPI find each other: "+
		"try make build where there is gcc\n")
	require.Empty(t, o.Stdout)
	run("-n", "2", openMPI, "ring").Went(t, suite.MPIAnswers(2, "ring"), "by PMIx")
	require.Empty(t, run("-n", "2", "true").Stderr)
}

// TestPeakWithClientsOfPMIx requires that the peak of an agent's resident memory is at most 16 MiB if its 16 ranks have
// initialized Open MPI by PMIx. "make bench-mpi" compares this memory with that of an agent whose ranks do not use
// PMIx.
func TestPeakWithClientsOfPMIx(t *testing.T) {
	openMPI, folder := openMPI(t), t.TempDir()
	r := launch.Start(t, "-n", "16", "--launcher", "local", "--hosts", "h", "--mpi", "pmix", "--bind-to", "none", "sh",
		"-c", `[ $RANK != 0 ] || echo $PPID; exec "$0" wait "$1"`, openMPI, folder)
	waitfor.Require(t, "all ranks have initialized MPI", func() bool {
		files, err := os.ReadDir(folder)
		return err == nil && len(files) == 16
	})
	var agent, kib int
	_, err := fmt.Sscan(r.Out.String(), &agent)
	require.NoError(t, err)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", agent))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	_, err = fmt.Sscan(rest, &kib)
	require.NoError(t, err)
	require.LessOrEqual(t, kib, 16<<10)
}
