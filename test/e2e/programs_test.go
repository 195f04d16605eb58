package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// MPICH's flavour of programs that Debian ships.
const (
	scalapack = "/usr/lib/x86_64-linux-gnu/scalapack/mpich-tests/"
	coarrays  = "/usr/lib/x86_64-linux-gnu/open-coarrays/mpich/bin/OpenCoarrays-2.10.1-tests/"
)

// A program of MPICH under a word that gives it nothing, or another program
// under a word that promises PMI, gets a hint; what is no MPI program gets none.
func TestNobodySpeaksPMI(t *testing.T) {
	for _, c := range []struct {
		args []string
		hint bool
	}{
		{[]string{"-n", "3", "true"}, false},
		{[]string{"-n", "3", "--mpi", "mpich", "true"}, true},
		{[]string{"-n", "3", "--mpi", "pmi2", "true"}, true},
		{[]string{"-n", "1", "--mpi", "mpich", "true"}, false},
		{[]string{"-n", "3", "--mpi", "none", "true"}, false},
		{[]string{"-n", "3", "-q", "--mpi", "mpich", "true"}, false},
		{[]string{"--launcher", "local", "--hosts", "a,b,c", "--tree", "chain", "--mpi", "mpich", pmiClient(t)}, false},
		{[]string{"--launcher", "local", "--hosts", "a,b,c", "--tree", "chain", "--mpi", "mpich", "true"}, true},
	} {
		o := ibrun(t, c.args...)
		require.Equal(t, 0, o.code, "%v: %s", c.args, o.stderr)
		if !c.hint {
			require.Empty(t, o.stderr, c.args)
			continue
		}
		require.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
		require.Contains(t, o.stderr, "ibrun: no rank said a word of PMI, though --mpi "+
			c.args[indexOf(c.args, "--mpi")+1]+" was given: if each believed to be rank 0 of 1, ")
	}
}

func indexOf(list []string, word string) int {
	for i, w := range list {
		if w == word {
			return i
		}
	}
	return -1
}
