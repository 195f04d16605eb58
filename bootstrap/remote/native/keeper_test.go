package native

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDetector plays the clock: what was received and when the timer rang, in
// seconds, and the question or verdict that follows.
func TestDetector(t *testing.T) {
	type look struct {
		now, received float64
		verdict       verdict
		next          float64
	}
	for name, looks := range map[string][]look{
		"data comes": {{15, 14, wait, 29}, {29, 20, wait, 35}},
		"answers that are faster than the timer is late": {
			{15.01, 0, ask, 30.01}, {30.02, 15.011, ask, 45.02}, {45.03, 30.021, ask, 60.03}, {60.04, 45.031, ask,
				75.04},
			{75.05, 60.041, ask, 90.05}, {90.06, 75.051, ask, 105.06},
		},
		"no answers": {{15, 0, ask, 30}, {30, 0, ask, 45}, {45, 0, ask, 60}, {60, 0, lost, 0}},
		"two missed, then an answer": {
			{15, 0, ask, 30}, {30, 0, ask, 45}, {45, 44, wait, 59}, {59, 44, ask, 74},
			{74, 44, ask, 89}, {89, 44, ask, 104}, {104, 44, lost, 0},
		},
		"this process was stopped for 59 s": {
			{15, 0, ask, 30}, {30, 0, ask, 45}, {45, 0, ask, 60}, {119, 0, ask, 134}, {134.2, 119.1, ask, 149.2},
		},
		"stopped, and nobody is there afterwards": {
			{15, 0, ask, 30}, {30, 0, ask, 45}, {45, 0, ask, 60}, {119, 0, ask, 134}, {134, 0, lost, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := detector{most: 3, every: 15 * time.Second, due: 15 * time.Second}
			for _, l := range looks {
				got := d.look(seconds(l.now), seconds(l.received))
				require.Equal(t, l.verdict, got, "at %v", l.now)
				if got != lost {
					require.Equal(t, seconds(l.next), d.due, "after %v", l.now)
				}
			}
		})
	}
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Microsecond)
}
