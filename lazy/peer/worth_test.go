package peer

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWorthSchedules compares the result of reached with a direct calculation, for random messages. The limit is
// reached if there is a span of time, up to the current message, whose messages add at least the limit plus the
// decrease during the span. Once the limit is reached, it remains reached.
func TestWorthSchedules(t *testing.T) {
	over := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 32))
		cfg := Worth{Limit: 1 + r.IntN(100), PerSecond: r.IntN(1000), Packet: 1400, Each: r.IntN(3)}
		mean := time.Duration(1+r.IntN(20)) * time.Millisecond
		var w worth
		var now time.Duration
		var at, costs []time.Duration
		was := false
		for range 200 {
			now += time.Duration(r.Int64N(int64(2 * mean)))
			size := r.IntN(LongMessage)
			at, costs = append(at, now), append(costs, time.Duration(cfg.Each+size/cfg.Packet)*time.Second)
			sum := time.Duration(0)
			for i := len(at) - 1; i >= 0; i-- {
				sum += costs[i]
				was = was || sum >= time.Duration(cfg.Limit)*time.Second+(now-at[i])*time.Duration(cfg.PerSecond)
			}
			require.Equal(t, was, w.reached(cfg, size, now), "seed %d at %v", seed, now)
		}
		if was {
			over++
		}
	}
	require.False(t, (&worth{}).reached(Worth{}, 1<<30, 0), "the zero value of Worth sets no limit")
	require.Greater(t, over, 200)
	require.Less(t, over, 1900)
}
