package figure

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	require.Zero(t, Median[int](nil))
	require.Equal(t, 3, Median([]int{9, 3, 1}))
	require.Equal(t, 2*time.Second, Median([]time.Duration{2 * time.Second, time.Second}))
}

func TestBounds(t *testing.T) {
	var text bytes.Buffer
	b := Bounds{To: &text}
	b.AtMost("a", 1.1, 1.1)
	b.AtLeast("b", 3, 3)
	require.NoError(t, b.Err())
	b.AtMost("c", 1.2, 1.1)
	b.AtLeast("d", 2.9, 3)
	require.EqualError(t, b.Err(), "missed: c; d")
	require.Equal(t, "a: 1.10 (bound: at most 1.10): met\nb: 3.00 (bound: at least 3.00): met\n"+
		"c: 1.20 (bound: at most 1.10): MISSED\nd: 2.90 (bound: at least 3.00): MISSED\n", text.String())
}

func TestMachine(t *testing.T) {
	require.Regexp(t, `^\d+ x .+, Linux \d+\..+, go.+, load \d+\.\d\d$`, Machine())
}

func TestRounds(t *testing.T) {
	n, err := Rounds("3")
	require.NoError(t, err)
	require.Equal(t, 3, n)
	for _, bad := range []string{"", "0", "-1", "x"} {
		_, err := Rounds(bad)
		require.Error(t, err, bad)
	}
}

// Both ways are measured in each round, ours first, until one fails.
func TestPair(t *testing.T) {
	var order string
	value := 0.0
	ours := func() (float64, error) { order, value = order+"a", value+2; return value, nil }
	theirs := func() (float64, error) { order += "b"; return 2, nil }
	var p Pair
	require.NoError(t, p.Measure(3, ours, theirs))
	require.Equal(t, "ababab", order)
	a, b, ratio := p.Medians()
	require.Equal(t, []float64{4, 2, 2}, []float64{a, b, ratio})
	failed := errors.New("failed")
	require.Equal(t, failed, p.Measure(2, func() (float64, error) { return 0, failed }, theirs))
	require.Equal(t, "ababab", order)
}
