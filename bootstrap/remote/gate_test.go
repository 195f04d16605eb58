package remote

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// The gate limits the ssh sessions that are being opened to one address. Once perAddress sessions have entered, enter
// must block until one of them leaves, or until its context ends. Sessions to another address must enter at once.
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
	leaves[0]() // The second call must not let another session enter.
	_, err = g.enter(t.Context(), "a:22")
	require.NoError(t, err)
	_, err = g.enter(over, "a:22")
	require.ErrorIs(t, err, context.Canceled)
}
