package upgrade

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ethernet is what package ibrun sets for links of 1,500 bytes.
var ethernet = Worth{Limit: 12, PerSecond: 1, Packet: 1400}

// after is how many messages in a row are sent until they are worth a stream; 0: more than most.
func after(size int, every time.Duration, most int) int {
	var w worth
	for n := range most {
		if w.reached(ethernet, size, time.Duration(n)*every) {
			return n + 1
		}
	}
	return 0
}

func TestWorth(t *testing.T) {
	for _, c := range []struct {
		size  int
		every time.Duration
		after int
	}{
		{16 << 10, 20 * time.Microsecond, 2},
		{16 << 10, 100 * time.Millisecond, 2},
		{16 << 10, 12 * time.Second, 0},
		{2 << 10, time.Millisecond, 13},
		{4 << 10, 50 * time.Microsecond, 7},
		{4 << 10, 300 * time.Millisecond, 7}, // to each of 64 ranks that share two processors
		{4 << 10, 2500 * time.Millisecond, 0},
		{1 << 10, 30 * time.Microsecond, 0},
		{64, time.Millisecond, 0},
		{64, time.Second, 0},
	} {
		require.Equal(t, c.after, after(c.size, c.every, 100_000), "%d bytes, one in %v", c.size, c.every)
	}
	require.False(t, (&worth{}).reached(Worth{}, 1<<30, 0), "without a limit")
}

// TestWorthSchedules: in random schedules, a pair is over the limit if and only if what it has sent
// in some span of time up to now counts the limit and what that span makes it forget; and it stays
// so.
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
	require.Greater(t, over, 200)
	require.Less(t, over, 1900)
}
