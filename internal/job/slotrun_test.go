package job

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSlotRuns requires that JoinRuns, UpdateRuns and FindRun give the same numbers as a list with one number per slot.
func TestSlotRuns(t *testing.T) {
	runs := JoinRuns([]SlotRun{{4, 6, 3}, {0, 4, 3}, {9, 10, 2}, {6, 7, 4}})
	require.Equal(t, []SlotRun{{0, 6, 3}, {6, 7, 4}, {9, 10, 2}}, runs)
	for slot, want := range []uint32{3, 3, 3, 3, 3, 3, 4, 0, 0, 2, 0} {
		number, ok := FindRun(runs, Slot(slot))
		require.Equal(t, want, number, "%d", slot)
		require.Equal(t, want > 0, ok, "%d", slot)
	}
	for _, c := range []struct{ fresh, want []SlotRun }{
		{nil, runs},
		{[]SlotRun{{0, 10, 5}}, []SlotRun{{0, 10, 5}}},
		{[]SlotRun{{2, 4, 5}}, []SlotRun{{0, 2, 3}, {2, 4, 5}, {4, 6, 3}, {6, 7, 4}, {9, 10, 2}}},
		{
			[]SlotRun{{1, 2, 4}, {3, 7, 4}, {7, 9, 4}},
			[]SlotRun{{0, 1, 3}, {1, 2, 4}, {2, 3, 3}, {3, 9, 4}, {9, 10, 2}},
		},
		{[]SlotRun{{5, 14, 6}}, []SlotRun{{0, 5, 3}, {5, 14, 6}}},
	} {
		require.Equal(t, c.want, UpdateRuns(runs, c.fresh), "%v", c.fresh)
	}
}
