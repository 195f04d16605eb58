package tree

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// grown is when the first n agents are up if each takes the free place that is
// first, as the paper's algorithm has it: without any formula. Agents are up in
// the order in which they are found.
func grown(c Cost, n int) []time.Duration {
	up := []time.Duration{0}
	turn := []int{0} // of each agent's next child
	for len(up) < n {
		best := -1
		var first time.Duration
		for i, at := range up {
			if at += c.Start(turn[i]) + c.REM; best < 0 || at < first {
				best, first = i, at
			}
		}
		turn[best]++
		up, turn = append(up, first), append(turn, 0)
	}
	slices.Sort(up)
	return up
}

// What the formula says is what happens to a parent that may have only so many
// launches under way: each begins SEQ after the one before, when there is room.
func TestStartKeepsToTheWindow(t *testing.T) {
	for _, c := range []Cost{{1, 10, 3}, {1, 10, 10}, {1, 10, 9}, {3, 10, 4}, {3, 10, 3}, {5, 5, 1}, {7, 5, 2},
		{1, 50, 1}, {2, 9, 0}} {
		var starts []time.Duration
		for i := range 40 {
			at := time.Duration(0)
			if i > 0 {
				at = starts[i-1] + c.SEQ
			}
			if c.Window > 0 && i >= c.Window {
				at = max(at, starts[i-c.Window]+c.REM)
			}
			starts = append(starts, at)
			require.Equal(t, at, c.Start(i), "%v child %d", c, i)
		}
	}
}

// The closed form, the tree that is split by it and the search for the first
// free place agree, with every kind of window.
func TestWindowedTreeIsOptimal(t *testing.T) {
	const most = 600
	for _, c := range []Cost{
		{time.Millisecond, time.Second, 16}, {7 * time.Millisecond, 172 * time.Millisecond, 16},
		{11 * time.Millisecond, 172 * time.Millisecond, 16},
		{time.Millisecond, 10 * time.Millisecond, 9}, {time.Millisecond, 10 * time.Millisecond, 10},
		{time.Microsecond, time.Second, 1},
		{time.Millisecond, 9 * time.Millisecond, 2}, {time.Millisecond, 40 * time.Millisecond, 3},
		{time.Millisecond, time.Millisecond, 1},
	} {
		at := fmt.Sprint(c)
		up := grown(c, most)
		s := Shape{Kind: Greedy, Cost: c}
		for n := 1; n <= most; n++ {
			require.Equal(t, up[n-1], c.Optimum(n), "%s n=%d", at, n)
			require.Equal(t, up[n-1], s.Makespan(n), "%s n=%d", at, n)
		}
		for i, when := range up[:most-1] {
			if when < up[i+1] {
				require.Equal(t, i+1, c.Reach(when, most), at)
				require.Equal(t, i+1, c.Reach(up[i+1]-1, most), at)
			}
		}
	}
}

// With starts that cost nothing each wave has w times as many agents as there were before.
func TestWavesOfAWindow(t *testing.T) {
	c := Cost{SEQ: 1, REM: time.Hour, Window: 16}
	n := 1
	for wave := 1; wave <= 5; wave++ {
		n *= 1 + c.Window
		require.Equal(t, n, c.Reach(time.Duration(wave)*c.REM+time.Second, 1<<30))
		require.Equal(t, time.Duration(wave), c.Optimum(n)/c.REM)
	}
}

// Shapes that are laid over the window are predicted as they run.
func TestOtherShapesWithAWindow(t *testing.T) {
	c := Cost{SEQ: time.Millisecond, REM: 100 * time.Millisecond, Window: 4}
	flat := Shape{Kind: Flat, Cost: c}
	require.Equal(t, 301*time.Millisecond, flat.Makespan(11))
	require.Equal(t, 205*time.Millisecond, Shape{Kind: Kary, K: 4, Cost: c}.Makespan(20))
}
