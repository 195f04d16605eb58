package between

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/bench/figure"
)

// The ratio is the median of the rounds' own, and a bound is met on its side.
func TestRow(t *testing.T) {
	p := figure.Pair{Ours: []float64{3, 30, 2}, Theirs: []float64{2, 10, 2}}
	r := atMost("trip", "us", p, 1.5)
	require.Equal(t, []float64{3, 2, 1.5}, []float64{r.Ours, r.Theirs, r.Ratio})
	require.True(t, r.met())
	r.Bound = 1.4
	require.False(t, r.met())
	rate := atLeast("rate", "MB/s", p, 1.6)
	require.False(t, rate.met())
	require.EqualError(t, judge([]row{rate, r, atMost("x", "us", p, 9)}, io.Discard), "missed: rate; trip")
	r.CPU = 1.234
	table := tableOf([]row{r, rate}, 3)
	require.Contains(t, table, "| trip | 3.0 us | 2.0 us | 1.50 | at most 1.40 | missed | 1.23 |\n")
	require.Contains(t, table, "| rate | 3.0 MB/s | 2.0 MB/s | 1.50 | at least 1.60 | missed |  |\n")
}

func TestNames(t *testing.T) {
	require.Equal(t, "node0002:7,node0003:7", crowd(2, 2, 7))
	require.Equal(t, []string{"64 B", "1 KiB", "64 MiB"}, []string{bytesOf(64), bytesOf(1 << 10), bytesOf(bulk)})
	require.Equal(t, 9.0, at([]float64{1, 5, 9}, 99))
}

// Rows that were measured in several jobs have the medians of each column.
func TestMiddle(t *testing.T) {
	list := middle([][]row{{{What: "a", Ours: 1, Theirs: 9, Ratio: 3}}, {{Ours: 5, Theirs: 7, Ratio: 1}},
		{{Ours: 3, Theirs: 8, Ratio: 2}}})
	require.Equal(t, []row{{What: "a", Ours: 3, Theirs: 8, Ratio: 2}}, list)
}
