package spawn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/executable"
)

// A launcher is found where a command line runs it, and not where a wrapper of programs of
// Open MPI mentions one.
func TestNamedLauncher(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"nested":  "#!/usr/bin/env bash\n# of runs\nfor i in 1 2; do\n\tOMP_NUM_THREADS=1 time /opt/mpi/bin/mpirun.openmpi -n 2 ./x\ndone\n",
		"wrapper": "#!/bin/sh\n# under mpirun -n 2\ncase $LAUNCHER in\nmpirun) R=$OMPI_COMM_WORLD_RANK ;;\nesac\necho \"mpirun is not here\"\nexec \"$@\"\n",
		"python":  "#!/usr/bin/python3\nmpirun -n 2\n",
	} {
		require.NoError(t, executable.Write(dir+"/"+name, []byte(text)))
	}
	for _, c := range []struct {
		path string
		argv []string
		want string
	}{
		{"/bin/sh", []string{"sh", "-c", "cd x && mpirun -n 2 ./hello"}, "mpirun"},
		{"/bin/bash", []string{"bash", "--norc", "-ec", "out=$(mpiexec -n 2 ./hello)"}, "mpiexec"},
		{"/bin/bash", []string{"bash", "-c", `if srun -n 2 ./hello; then :; fi`}, "srun"},
		{"/bin/bash", []string{"bash", "-c", `exec "$0" "$@"`, "mpirun"}, ""},
		{"/bin/bash", []string{"bash", "nested"}, "mpirun.openmpi"},
		{"/bin/bash", []string{"bash", dir + "/nested"}, "mpirun.openmpi"},
		{"/bin/bash", []string{"bash", "wrapper", "./hello"}, ""},
		{"/bin/bash", []string{"bash"}, ""},
		{dir + "/nested", []string{"./nested"}, "mpirun.openmpi"},
		{dir + "/wrapper", []string{"./wrapper", "./hello"}, ""},
		{dir + "/python", []string{"./python"}, ""},
		{dir + "/absent", []string{"./absent"}, ""},
		{"/usr/bin/env", []string{"env", "A=b", "mpirun", "-n", "2"}, "mpirun"},
		{"/usr/bin/env", []string{"env", "A=b", "hello"}, ""},
		{"/usr/bin/python3", []string{"python3", "run.py", "--launcher", "mpirun"}, ""},
	} {
		require.Equal(t, c.want, namedLauncher(c.path, c.argv, dir), "%v", c.argv)
	}
	for word, want := range map[string]bool{
		"mpirun": true, "/opt/bin/mpiexec.hydra": true, "mpirun-4.1": true, "ibrun": true, "mpirunner": false, "hello": false, "": false,
	} {
		require.Equal(t, want, isLauncher(word), word)
	}
}
