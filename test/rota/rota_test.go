package rota

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThreeTurnsPlayAll(t *testing.T) {
	all := []int{2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31}
	var before [][]int
	for turn := uint64(0); turn < 9; turn += 3 {
		var played []int
		for i := range uint64(3) {
			third := Third(turn+i, all)
			require.True(t, slices.IsSorted(third), "cases keep their order")
			require.Equal(t, third, Third(turn+i, all), "a turn can be run again")
			played = append(played, third...)
		}
		require.ElementsMatch(t, all, played)
		before = append(before, Third(turn, all))
	}
	require.NotEqual(t, before[0], before[1], "other companies")
}

func TestChosen(t *testing.T) {
	t.Setenv(Variable, "")
	require.Equal(t, []int{1, 2, 3, 4}, Chosen(t, []int{1, 2, 3, 4}))
	t.Setenv(Variable, "7")
	require.Equal(t, Third(7, []int{1, 2, 3, 4}), Chosen(t, []int{1, 2, 3, 4}))
}
