package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	app "ibrun"
)

func init() {
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
