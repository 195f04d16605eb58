package lazy

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/fabric/mem"
)

// drawNetworks is the schedule of a seed with two networks, of which the first fails: with a word
// of the port, or in silence, for one rank, both, or in between, and more than once.
func drawNetworks(t *testing.T, seed uint64) *schedule {
	faults := mem.Faults{Loss: 0.1, Dup: 0.1, Reorder: 0.1, Delay: 100 * time.Microsecond,
		Jitter: 300 * time.Microsecond}
	first, second := mem.NewInfiniBand(seed, faults), mem.New(seed+1, faults)
	s := draw(t, seed, true, overMem(first))
	s.restarts = 0
	r := rand.New(rand.NewPCG(seed, 17))
	s.pause = []time.Duration{0, time.Millisecond, 30 * time.Millisecond, 300 * time.Millisecond}[r.IntN(4)]
	s.secondaries = map[uint32]fabric.Tuple{}
	plain := s.config
	s.config = func(c *Config) {
		plain(c)
		rank := c.Rank
		c.Hold = []time.Duration{5 * time.Millisecond, 100 * time.Millisecond, 10 * time.Second}[seed%3]
		c.Secondary = func(to fabric.Sink) fabric.Fabric { return second.Open(to) }
		c.SecondaryOpened = func(tuple fabric.Tuple) { s.secondaries[rank] = tuple }
	}
	s.chaos = func() {
		upTo := func(d time.Duration) { <-time.After(time.Duration(r.Int64N(int64(d)))) }
		of := func(list ...time.Duration) time.Duration { return list[r.IntN(len(list))] }
		ranks := s.layout.Ranks()
		for range 1 + r.IntN(8) {
			upTo(of(time.Millisecond, 20*time.Millisecond, time.Second))
			a, b := s.table(r.Uint32N(ranks)).Tuple(), s.table(r.Uint32N(ranks)).Tuple()
			switch r.IntN(4) {
			case 0, 1:
				first.Port(a, false)
			case 2:
				first.Isolate(a, true)
			case 3:
				first.Partition(a, b, a != b)
			}
			upTo(of(time.Microsecond, time.Millisecond, 20*time.Millisecond, time.Second, 8*time.Second))
			if r.IntN(3) > 0 {
				first.Port(a, true)
				first.Partition(a, b, false)
			}
		}
		for a := range ranks {
			first.Port(s.table(a).Tuple(), true)
			for b := range ranks {
				first.Partition(s.table(a).Tuple(), s.table(b).Tuple(), false)
			}
		}
	}
	return s
}

// TestNetworkSchedules runs schedules with two networks in virtual time. All messages arrive, each
// once and in order, and no pair stands still when the faults are over.
func TestNetworkSchedules(t *testing.T) {
	if *oneSchedule > 0 {
		synctest.Test(t, func(t *testing.T) { drawNetworks(t, *oneSchedule).run() })
		return
	}
	moves, resumed := uint16(0), uint64(0)
	for seed := uint64(1); seed <= uint64(3**schedules) && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			s := drawNetworks(t, seed)
			s.run()
			for r := range s.layout.Ranks() {
				for _, f := range s.table(r).fars {
					moves += f.peer.Moves()
					resumed += f.resumes
				}
			}
		})
		if t.Failed() {
			t.Logf("go test ./lazy -run TestNetworkSchedules -seed %d", seed)
		}
	}
	t.Logf("%d changes of the network, %d streams resumed", moves, resumed)
	require.NotZero(t, moves)
	require.NotZero(t, resumed)
}
