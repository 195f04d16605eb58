//go:build mpi

package script

import "testing"

// TestScriptsOfForeignPrograms runs the scripts that need software of other projects, such as MPI libraries.
func TestScriptsOfForeignPrograms(t *testing.T) { run(t, "1", "testdata/mpi/*.txtar") }
