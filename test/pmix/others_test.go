package pmix

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/fleet/suite"
)

// variable is one that a client of PMIx reads.
var variable = regexp.MustCompile(`(?m)^PMIX_\w+`)

// others are programs of PMI-1 and PMI-2. Where ibrun can tell what they are, they see no variable
// of PMIx; where it cannot, the variables change nothing for them.
func (b *bed) others(t *testing.T) {
	mpich := filepath.Join(b.Shared(), "mpich")
	out, err := exec.Command("mpicc.mpich", "-o", mpich, "../e2e/testdata/mpi.c").CombinedOutput()
	require.NoError(t, err, "packages mpich and libmpich-dev are needed: %s", out)
	behind := []string{"sh", "-c", `exec "$0" "$@"`, mpich}
	for _, what := range []string{"hello", "ring", "collectives", "names"} {
		for _, argv := range [][]string{{mpich, what}, append(behind, what)} {
			// On one node: between several, this MPICH hangs at times (docs/mpi-programs.md).
			o := b.run(t, 3, 1, argv...)
			require.Equal(t, 0, o.code, "%v: %s", argv, o.stderr)
			require.Equal(t, suite.MPIAnswers(3, what), suite.Lines(o.stdout), o.stderr)
			require.Empty(t, o.stderr)
		}
	}
	for how, told := range map[string]bool{"auto": true, "pmix": true, "mpich": false, "pmi": false, "pmi2": false,
		"none": false} {
		o := b.run(t, 2, 2, "--mpi", how, "env")
		require.Equal(t, told, variable.MatchString(o.stdout), "--mpi %s: %s", how, o.stdout)
	}
	pmi := filepath.Join(b.Shared(), "pmi")
	out, err = exec.Command("go", "build", "-o", pmi, "ibrun/test/pmi").CombinedOutput()
	require.NoError(t, err, "%s", out)
	o := b.run(t, 8, 4, pmi, "-all")
	require.Equal(t, "8 ranks exchanged\n", o.stdout, o.stderr)
	pmi2 := filepath.Join(b.Shared(), "pmi2")
	out, err = exec.Command("gcc", "-o", pmi2, "../e2e/testdata/pmi2.c", "-lpmi2").CombinedOutput()
	require.NoError(t, err, "package libpmi2-0-dev is needed: %s", out)
	o = b.run(t, 2, 2, pmi2)
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, 2, strings.Count(o.stdout, "child "), "%s%s", o.stdout, o.stderr)
}
