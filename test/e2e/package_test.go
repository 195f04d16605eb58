package e2e

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	app "ibrun"
)

func init() {
	scenarios["ranks"] = func(r *rank, _ string) { r.noSuchRanks() }
	scenarios["twice"] = func(r *rank, _ string) { r.initTwice() }
}

// initTwice requires that a second Init fails rather than be a job of one rank, and spoils nothing.
func (r *rank) initTwice() {
	second, err := app.Init(r.ctx)
	require.ErrorIs(r, err, app.ErrInitialized)
	require.Nil(r, second)
	require.NoError(r, r.Barrier(r.ctx))
}

func TestWorldInitTwice(t *testing.T) {
	succeeds(t, stage{"", []string{"-n", "3"}}, "twice")
}

// nodeOf is the node of a rank that there is.
func (r *rank) nodeOf(rank int) int {
	node, err := r.NodeOf(rank)
	require.NoError(r, err)
	return node
}

// noSuchRanks gives each method that takes a rank those that there are not.
func (r *rank) noSuchRanks() {
	for _, bad := range []int{-1, r.Size(), 1 << 32, 1<<32 + r.Rank(), math.MinInt} {
		for name, call := range map[string]func() error{
			"NodeOf":    func() error { _, err := r.NodeOf(bad); return err },
			"Send":      func() error { return r.Send(r.ctx, bad, nil) },
			"TrySend":   func() error { return r.TrySend(bad, nil) },
			"RecvFrom":  func() error { _, err := r.RecvFrom(r.ctx, bad); return err },
			"Warm":      func() error { return r.Warm(r.Rank(), bad) },
			"Get":       func() error { _, err := r.Get(r.ctx, bad, "k"); return err },
			"Broadcast": func() error { _, err := r.Broadcast(r.ctx, bad, nil); return err },
			"Gather":    func() error { _, err := r.Gather(r.ctx, bad, nil); return err },
			"Scatter":   func() error { _, err := r.Scatter(r.ctx, bad, nil); return err },
		} {
			err := call()
			require.ErrorIs(r, err, app.ErrNoSuchRank, "%s of rank %d", name, bad)
			require.ErrorContains(r, err, fmt.Sprintf("ibrun: %s: rank %d of 0 to %d: ", name, bad, r.Size()-1))
		}
	}
	require.NoError(r, r.Barrier(r.ctx))
	short, cancel := context.WithTimeout(r.ctx, time.Millisecond)
	defer cancel()
	from, _, err := r.Recv(short)
	require.ErrorIs(r, err, context.DeadlineExceeded)
	require.ErrorIs(r, r.Send(r.ctx, from, nil), app.ErrNoSuchRank, "the sender of no message")
	require.NoError(r, r.Barrier(r.ctx))
}

func TestWorldNoSuchRank(t *testing.T) {
	succeeds(t, stage{"", []string{"-n", "3"}}, "ranks")
	succeeds(t, five("--lazy", "flat"), "ranks")
}
