package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// MPICH's flavour of programs that Debian ships.
const (
	scalapack = "/usr/lib/x86_64-linux-gnu/scalapack/mpich-tests/"
	coarrays  = "/usr/lib/x86_64-linux-gnu/open-coarrays/mpich/bin/OpenCoarrays-2.10.1-tests/"
)

// Programs that somebody else has built, several ranks on this node.
func TestPrograms(t *testing.T) {
	for _, c := range []struct {
		ranks string
		argv  []string
		says  string
		times int
	}{
		{"2", strings.Fields("NPmpich2 -l 1 -u 8195 -n 200 -o np.out"), "8195 bytes    200 times", 1},
		{"2", []string{scalapack + "xdqr"}, "8 tests completed and passed residual checks", 1}, // reads QR.dat
		{"4", []string{coarrays + "co_sum_test"}, "Test passed.", 1},
		{"4", []string{coarrays + "atomics"}, "Test passed", 1},
	} {
		require.FileExists(t, "testdata/QR.dat")
		if strings.HasPrefix(c.argv[0], "/") {
			require.FileExists(t, c.argv[0], "packages scalapack-mpi-test and libcoarrays-mpich-dev are needed")
		}
		cmd := command(t, append([]string{"-n", c.ranks}, c.argv...)...)
		b, err := os.ReadFile("testdata/QR.dat")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "QR.dat"), b, 0o666))
		o := finish(t, cmd)
		require.Equal(t, 0, o.code, "%v: %s", c.argv, o.stderr)
		require.Equal(t, c.times, strings.Count(string(o.stdout)+o.stderr, c.says), "%s\n%s", o.stdout, o.stderr)
	}
}

// What MPICH asks for at N ranks on K nodes: N puts of an address, and one more
// on each node of several ranks for the name of their shared memory; all N
// addresses on each node, the name by all but one of its ranks, the mapping by
// each rank; four barriers, or three where no node has several ranks and nothing is
// shared.
func TestMPICHCountsOverNodes(t *testing.T) {
	mpi := mpiProgram(t)
	for _, ranks := range [][]int{{1, 1}, {2, 3}, {2, 2, 1}, {1, 1, 1, 1}} {
		n, k, crowded := 0, len(ranks), 0
		var hosts []string
		for i, r := range ranks {
			hosts = append(hosts, fmt.Sprintf("h%d:%d", i, r))
			n += r
			if r > 1 {
				crowded++
			}
		}
		o := ibrun(t, "--launcher", "local", "--hosts", strings.Join(hosts, ","), "-n", fmt.Sprint(n), "--stats=json",
			mpi, "hello")
		require.Equal(t, 0, o.code, o.stderr)
		var seen struct{ Sums map[string]int }
		require.NoError(t, json.Unmarshal([]byte(o.stderr), &seen), o.stderr)
		require.Equal(t, n, seen.Sums["ranks"], ranks)
		require.Equal(t, n+crowded, seen.Sums["pmi_puts"], ranks)
		require.Equal(t, n*k+(n-k)+n, seen.Sums["pmi_gets"], ranks)
		barriers := 3
		if crowded > 0 {
			barriers = 4
		}
		require.Equal(t, barriers*n, seen.Sums["pmi_fences"], ranks)
	}
}

// A program of MPICH that never comes to MPI_Init is seen by what it is linked with.
func TestMutePrograms(t *testing.T) {
	o := ibrun(t, "--launcher", "local", "--hosts", "a,b,c", mpiProgram(t), "mute")
	require.Equal(t, 0, o.code, o.stderr)
	require.Regexp(t,
		`^ibrun: no rank said a word of PMI, though the program is linked with libmpich\.so\.12: [^\n]*\n$`, o.stderr)
	o = ibrun(t, "-n", "3", "--mpi", "none", mpiProgram(t), "mute")
	require.Empty(t, o.stderr)
}

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
