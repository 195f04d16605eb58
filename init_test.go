package ibrun_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun"
)

func TestInitTwice(t *testing.T) {
	defer ibrun.OnlyOnce()()
	w, err := ibrun.Init(t.Context())
	require.NoError(t, err)
	second, err := ibrun.Init(t.Context())
	require.ErrorIs(t, err, ibrun.ErrInitialized)
	require.Nil(t, second)
	require.NoError(t, w.Barrier(t.Context()), "the first world is not affected")
	require.NoError(t, w.Finalize(t.Context()))
	_, err = ibrun.Init(t.Context())
	require.ErrorIs(t, err, ibrun.ErrInitialized, "also after Finalize")
}
