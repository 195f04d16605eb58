//go:build !cgo || noib

package verbs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
)

func TestNotBuilt(t *testing.T) {
	library, err := verbs.Open()
	require.Nil(t, library)
	require.ErrorIs(t, err, verbs.ErrNotBuilt)
	require.EqualError(t, err, "this program was built without InfiniBand support: no cgo, or tag noib; "+
		"build with cgo, infiniband/verbs.h (Debian: libibverbs-dev) and -tags ib")
}
