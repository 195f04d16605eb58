package e2e

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/product"
)

// pmiClient builds the PMI client that needs no MPI library.
func pmiClient(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pmi")
	require.NoError(t, product.Program(path, "ibrun/test/pmi"))
	return path
}
