//go:build mpi

package mpi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/executable"
	"ibrun/test/launch"
)

// TestNestedLaunchers runs mpirun, mpiexec.hydra, ibrun and further launchers as ranks of ibrun: directly, from a
// script, from a shell or from Python. Each of them must start a new job with ranks 0 and 1. The outer ibrun must not
// print a warning.
func TestNestedLaunchers(t *testing.T) {
	t.Setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
	t.Setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
	openMPI, mpich, dir := openMPI(t), mpich(t), t.TempDir()
	makeSessionFolder(t)
	mpirun := []string{"mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-n", "2", openMPI, "ring"}
	script := filepath.Join(dir, "script")
	require.NoError(t, executable.Write(script, []byte("#!/bin/sh\n"+strings.Join(mpirun, " ")+"\n")))
	const python = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
	with := func(before ...string) []string { return append(before, mpirun...) }
	for name, c := range map[string]struct {
		ranks string
		argv  []string
	}{
		"mpirun":                  {"1", mpirun},
		"mpirun in each of two":   {"2", mpirun},
		"behind a prefix":         {"1", with("env", "A=b")},
		"in a script":             {"1", []string{script}},
		"in a command of a shell": {"1", []string{"sh", "-c", strings.Join(mpirun, " ") + "; exit $?"}},
		"by one rank of Python":   {"1", with("/usr/bin/python3", "-c", python)},
		"by two":                  {"2", with("/usr/bin/python3", "-c", python)},
		"mpiexec.hydra":           {"2", []string{"mpiexec.hydra", "-n", "2", mpich, "ring"}},
		"hydra, outside a port":   {"2", []string{"--pmi-port", "mpiexec.hydra", "-n", "2", mpich, "ring"}},
		"ibrun and Open MPI":      {"2", []string{launch.Program, "--bind-to", "none", "-n", "2", openMPI, "ring"}},
		"ibrun and MPICH":         {"2", []string{launch.Program, "--bind-to", "none", "-n", "2", mpich, "ring"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := ibrun(t, append([]string{"--bind-to", "none", "-n", c.ranks}, c.argv...)...)
			require.Equal(t, 0, o.Code, o.Stderr)
			require.Empty(t, o.Stderr)
			for _, line := range []string{"rank 0 of 2: ring\n", "rank 1 of 2: ring\n"} {
				require.Equal(t, map[string]int{"1": 1, "2": 2}[c.ranks], strings.Count(o.Stdout, line), "%s",
					o.Stdout)
			}
		})
	}
}

// makeSessionFolder makes the folder in which mpirun keeps its session folders. Without it, one of two mpirun fails if
// they make the folder at the same time (Open MPI 4.1, orte/util/session_dir.c). makeSessionFolder also makes a
// subfolder, because the last mpirun removes an empty folder.
func makeSessionFolder(t *testing.T) {
	temp, err := os.MkdirTemp("", "") // t.TempDir would be too long for the paths of sockets
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	t.Setenv("TMPDIR", temp)
	host, err := os.Hostname()
	require.NoError(t, err)
	host, _, _ = strings.Cut(host, ".")
	require.NoError(t, os.MkdirAll(filepath.Join(temp, fmt.Sprintf("ompi.%s.%d", host, os.Getuid()), "stays"), 0o700))
}

// TestNestedIbrun runs ibrun as a rank of another launcher. The ranks of ibrun must form a new job. They must not have
// the environment variables by which a rank joins the job of the other launcher.
func TestNestedIbrun(t *testing.T) {
	t.Setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
	t.Setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
	for _, outer := range []string{"mpirun.openmpi --oversubscribe --bind-to none", "mpiexec.hydra"} {
		inside := func(outerRanks string, args ...string) launch.Outcome {
			c := command(t, args...)
			c.Args = append(append(strings.Fields(outer), "-n", outerRanks, launch.Program), c.Args[1:]...)
			path, err := exec.LookPath(c.Args[0])
			require.NoError(t, err)
			c.Path = path
			return launch.Finish(t, c)
		}
		for library, path := range map[string]string{"libmpi": openMPI(t), "libmpich": mpich(t)} {
			o := inside("2", "-n", "2", path, "ring")
			require.Equal(t, 0, o.Code, "%s, %s: %s", outer, library, o.Stderr)
			require.Equal(t, 2, strings.Count(o.Stdout, "rank 1 of 2: ring\n"), "%s, %s: %s", outer, library,
				o.Stdout)
		}
		o := inside("1", "-n", "1", "--mpi", "none", "env")
		require.Equal(t, 0, o.Code, o.Stderr)
		require.Contains(t, o.Stdout, "\nIBRUN_RANK=0\n")
		// With OMPI_MCA_orte_launch two jobs of ibrun under one mpirun would use the same shared memory and hang.
		require.NotRegexp(t, `(?m)^(PMI_FD|PMI_PORT|PMIX_\w+|FLUX_\w+|OMPI_MCA_(ess\w*|orte_(hnp_uri|launch)))=`,
			o.Stdout, outer)
	}
}
