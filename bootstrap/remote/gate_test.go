package remote

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// At most perAddress sessions of one address are inside the gate at a time. Sessions of another address enter at once.
func TestGate(t *testing.T) {
	var g gate
	var leaves []func()
	for range perAddress {
		leave, err := g.enter(t.Context(), "a:22")
		require.NoError(t, err)
		leaves = append(leaves, leave)
	}
	over, stop := context.WithCancel(t.Context())
	stop()
	_, err := g.enter(over, "a:22")
	require.ErrorIs(t, err, context.Canceled)
	_, err = g.enter(t.Context(), "b:22")
	require.NoError(t, err)
	leaves[0]()
	leaves[0]() // The slot must not be released twice.
	_, err = g.enter(t.Context(), "a:22")
	require.NoError(t, err)
	_, err = g.enter(over, "a:22")
	require.ErrorIs(t, err, context.Canceled)
}
