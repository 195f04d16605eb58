package slotruns

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
)

// TestRuns requires that runs are joined, updated and found as if the number of each slot were kept alone.
func TestRuns(t *testing.T) {
	runs := Join([]Run{{4, 6, 3}, {0, 4, 3}, {9, 10, 2}, {6, 7, 4}})
	require.Equal(t, []Run{{0, 6, 3}, {6, 7, 4}, {9, 10, 2}}, runs)
	for slot, want := range []uint32{3, 3, 3, 3, 3, 3, 4, 0, 0, 2, 0} {
		number, ok := Find(runs, job.Slot(slot))
		require.Equal(t, want, number, "%d", slot)
		require.Equal(t, want > 0, ok, "%d", slot)
	}
	for _, c := range []struct{ fresh, want []Run }{
		{nil, runs},
		{[]Run{{0, 10, 5}}, []Run{{0, 10, 5}}},
		{[]Run{{2, 4, 5}}, []Run{{0, 2, 3}, {2, 4, 5}, {4, 6, 3}, {6, 7, 4}, {9, 10, 2}}},
		{
			[]Run{{1, 2, 4}, {3, 7, 4}, {7, 9, 4}},
			[]Run{{0, 1, 3}, {1, 2, 4}, {2, 3, 3}, {3, 9, 4}, {9, 10, 2}},
		},
		{[]Run{{5, 14, 6}}, []Run{{0, 5, 3}, {5, 14, 6}}},
	} {
		require.Equal(t, c.want, Update(runs, c.fresh), "%v", c.fresh)
	}
}
