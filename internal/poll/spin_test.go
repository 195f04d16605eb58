package poll

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Polls that bring nothing become rare, and after some that bring something each wait polls again.
func TestBecomesRare(t *testing.T) {
	s := NewSpinner(time.Microsecond, false)
	polls := func(waits int, brings bool) (n int) {
		for range waits {
			polled := false
			require.Equal(t, brings, s.Poll(func() bool { polled = true; return brings }) || brings && !polled)
			if polled {
				n++
			}
		}
		return n
	}
	require.Equal(t, 3, polls(7, false), "of waits 1, 3 and 7")
	require.Less(t, polls(1000, false), 25)
	require.GreaterOrEqual(t, polls(200, true), 200-mostRest)
	require.Equal(t, 100, polls(100, true))
}

func TestRare(t *testing.T) {
	var r Rare
	var tries []int
	for wait := range 200 {
		if r.Due() {
			tries = append(tries, wait)
			r.Note(false)
		}
	}
	require.Equal(t, []int{0, 2, 6, 14, 30, 62, 126, 191}, tries)
	for range 7 {
		r.Note(true)
	}
	for !r.Due() {
	}
	r.Note(false)
	require.False(t, r.Due())
	require.True(t, r.Due(), "what has brought something counts")
}

func TestNeverAndAlways(t *testing.T) {
	var never Spinner
	require.False(t, never.Poll(func() bool { t.Error("it polls"); return true }))
	always, tries := NewSpinner(time.Nanosecond, true), 0
	for range 10 {
		require.False(t, always.Poll(func() bool { tries++; return false }))
	}
	require.GreaterOrEqual(t, tries, 10)
}
