package udp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What one look finds is told from what several do.
func TestSilence(t *testing.T) {
	const s = time.Second
	type look struct {
		at         time.Duration
		unanswered int
		acked      time.Duration
		dead       bool
	}
	for name, looks := range map[string][]look{
		"idle": {{5 * s, 0, 9 * s, false}, {10 * s, 0, 14 * s, false}, {40 * s, 0, 44 * s, false}},
		"a probe is lost": {{5 * s, 0, 60 * s, false}, {10 * s, 1, 65 * s, false}, {15 * s, 1, 70 * s, false},
			{60 * s, 1, 115 * s, false}, {65 * s, 0, 5 * s, false}},
		"lost and recovered": {{5 * s, 3, 5 * s, false}, {10 * s, 4, 10 * s, false},
			{15 * s, 0, 100 * time.Millisecond, false}},
		"resends, answered": {{5 * s, 3, 100 * time.Millisecond, false}, {40 * s, 3, 100 * time.Millisecond, false}},
		"cut": {{5 * s, 4, 5 * s, false}, {10 * s, 5, 10 * s, false}, {15 * s, 5, 15 * s, false},
			{20 * s, 6, 20 * s, true}},
		"cut while shut":  {{5 * s, 2, 70 * s, false}, {10 * s, 3, 75 * s, false}, {15 * s, 3, 80 * s, true}},
		"we were stopped": {{5 * s, 3, 5 * s, false}, {60 * s, 0, s, false}},
	} {
		w := silence{most: 20 * s}
		for _, l := range looks {
			require.Equal(t, l.dead, w.dead(l.at, l.unanswered, l.acked), "%s at %v", name, l.at)
		}
	}
}
