//go:build mpi

package nodes

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/fleet/suite"
	"ibrun/test/product"
)

// pmiPrograms runs programs that use PMI-1 or PMI-2. If a shell starts the program, ibrun cannot detect its library and
// also sets the environment variables of PMIx. The program must succeed in this case, too.
func (b *bed) pmiPrograms(t *testing.T) {
	mpich := suite.MPICH(t, "../testdata/mpi.c", filepath.Join(b.Shared(), "mpich"))
	for _, argv := range [][]string{{mpich, "names"}, {"sh", "-c", `exec "$0" "$@"`, mpich, "collectives"}} {
		// These jobs run on one node, because Debian's MPICH sometimes hangs on several (docs/mpi-programs.md).
		b.run(t, 2, 1, argv...).Went(t, suite.MPIAnswers(2, argv[len(argv)-1]))
	}
	pmi := filepath.Join(b.Shared(), "pmi")
	require.NoError(t, product.Program(pmi, "ibrun/test/pmi"))
	o := b.run(t, 5, 3, pmi, "-all")
	require.Equal(t, "5 ranks exchanged\n", o.Stdout, o.Stderr)
	pmi2 := suite.Compile(t, filepath.Join(b.Shared(), "pmi2"), "gcc", "../testdata/pmi2.c", "-lpmi2")
	o = b.run(t, 2, 2, pmi2)
	require.Equal(t, 0, o.Code, o.Stderr)
	require.Equal(t, 2, strings.Count(o.Stdout, "child "), "%s%s", o.Stdout, o.Stderr)
}
