package job

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLayout(t *testing.T) {
	l := NewLayout([]Share{{2, 16}, {0, 4}, {1, 16}, {3, 1}, {1, 5}})
	require.Equal(t, []Share{{3, 16}, {3, 1}, {1, 5}}, slices.Collect(l.Shares()))
	require.Equal(t, uint32(7), l.Nodes())
	require.Equal(t, uint32(56), l.Ranks())
	next := Slot(0)
	for node := range NodeIndex(l.Nodes()) {
		first, count := l.SlotsOn(node)
		require.Equal(t, next, first)
		for r := range count {
			require.Equal(t, node, l.NodeOf(first+Slot(r)))
		}
		next += Slot(count)
	}
	require.Equal(t, l.Ranks(), uint32(next))
	require.Zero(t, NewLayout(nil).Ranks())
	require.Zero(t, testing.AllocsPerRun(10, func() { _ = l.NodeOf(50) }))
}

func TestHistogram(t *testing.T) {
	var h Histogram
	require.Zero(t, h.Quantile(0.5))
	for i := range 1000 {
		h.Observe(time.Duration(i+1) * time.Millisecond)
	}
	require.InEpsilon(t, float64(500*time.Millisecond), float64(h.Quantile(0.5)), 0.13)
	require.InEpsilon(t, float64(990*time.Millisecond), float64(h.Quantile(0.99)), 0.13)
	h = Histogram{}
	h.Observe(0)
	require.LessOrEqual(t, h.Quantile(1), 2*time.Microsecond)
	h.Observe(time.Hour)
	require.Greater(t, h.Quantile(1), time.Minute)
	last := 0
	for d := time.Microsecond; d < 2*time.Minute; d += d/50 + 1 {
		b := bucketOf(d)
		require.GreaterOrEqual(t, b, last)
		last = b
	}
}

func TestTallyAdds(t *testing.T) {
	var a, b Tally
	a.Sum[CountRanks], b.Sum[CountRanks] = 1, 2
	a.Level(0).Asked, b.Level(2).Hit = 5, 7
	b.Latency.Observe(time.Millisecond)
	a.Add(&b)
	require.Equal(t, uint64(3), a.Sum[CountRanks])
	require.Equal(t, []LevelTally{{Asked: 5}, {}, {Hit: 7}}, a.Levels)
	require.InEpsilon(t, float64(time.Millisecond), float64(a.Latency.Quantile(1)), 0.13)
	for _, name := range CountNames {
		require.NotEmpty(t, name)
	}
}
