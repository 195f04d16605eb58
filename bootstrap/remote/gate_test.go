package remote

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// No more than a few are between entering and leaving, for one address; others do
// not wait for them.
func TestGate(t *testing.T) {
	var g gate
	var inside, most atomic.Int32
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			leave, err := g.enter(t.Context(), "a:22")
			if err != nil {
				panic(err)
			}
			now := inside.Add(1)
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
			}
			inside.Add(-1)
			leave()
			leave()
		})
	}
	all.Wait()
	require.LessOrEqual(t, most.Load(), int32(perAddress))
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
	_, err = g.enter(t.Context(), "a:22")
	require.NoError(t, err)
}
