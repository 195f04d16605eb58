package message

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/bench/figure"
)

// TestRowsAreJudged requires that the ratio of a row is the median of the ratios of its rounds, and that judge
// reports missed upper and lower bounds.
func TestRowsAreJudged(t *testing.T) {
	p := pair{ours: []float64{3, 30, 2}, theirs: []float64{2, 10, 2}}
	r := atMost("trip", "us", p, 1.5)
	require.Equal(t, []float64{3, 2, 1.5}, []float64{r.Ours, r.Theirs, r.Ratio})
	require.True(t, r.figure().Met)
	r.Bound = 1.4
	rate := atLeast("rate", "MB/s", p, 1.6)
	require.EqualError(t, judge([]row{rate, r, atMost("x", "us", p, 9)}, io.Discard), "missed: rate; trip")
	r.CPU = 1.234
	table := tableOf([]row{r, rate}, 3)
	require.Contains(t, table, "| trip | 3.0 us | 2.0 us | 1.50 | at most 1.40 | missed | 1.23 |\n")
	require.Contains(t, table, "| rate | 3.0 MB/s | 2.0 MB/s | 1.50 | at least 1.60 | missed |  |\n")
}

// TestMediansOfRows requires that medians merges the tables of several jobs into one, with the median of each value.
func TestMediansOfRows(t *testing.T) {
	list := medians([][]row{{{What: "a", Ours: 1, Theirs: 9, Ratio: 3}}, {{Ours: 5, Theirs: 7, Ratio: 1}},
		{{Ours: 3, Theirs: 8, Ratio: 2}}})
	require.Equal(t, []row{{What: "a", Ours: 3, Theirs: 8, Ratio: 2}}, list)
}

func TestTimesAreReadFromOutput(t *testing.T) {
	took, err := allTime(figure.Result{Out: []byte("256 ranks sent 65536 messages of 64 bytes in 1.25s\n")})
	require.NoError(t, err)
	require.Equal(t, 1250.0, took)
	_, err = allTime(figure.Result{Out: []byte("ibrun: no such host\n")})
	require.ErrorContains(t, err, "unexpected output")
	took, err = firstTime(figure.Result{Said: []byte("ibrun: a word\n" +
		"{\"mode\":\"lazy\",\"first_message_p50_us\":1500}\n")})
	require.NoError(t, err)
	require.Equal(t, 1.5, took)
	_, err = firstTime(figure.Result{Said: []byte("ibrun: a word\n")})
	require.ErrorContains(t, err, "no statistics")
}
