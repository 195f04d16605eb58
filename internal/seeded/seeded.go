// Package seeded runs the seeded schedules of a test on all CPUs, or one schedule whose seed is given. The
// test defines what a schedule does.
package seeded

import (
	"flag"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

var seed = flag.Uint64("seed", 0, "run only this schedule of the simulator, and log all")

// Counts holds how often each input came in each state.
type Counts map[[2]int]int

// Run runs schedules of two ranks, and a tenth as many of eight. It returns the sum of their counts. With
// -seed it runs only the schedule of that seed, which gets a log; the others get nil. A failure prints the
// command that replays the schedule in the package pkg.
func Run(t *testing.T, schedules int, pkg string,
	schedule func(seed uint64, ranks int, log func(string, ...any)) (Counts, error),
) Counts {
	sum := Counts{}
	for _, c := range []struct{ ranks, share int }{{2, 1}, {8, 10}} {
		t.Run(fmt.Sprintf("of %d", c.ranks), func(t *testing.T) {
			if *seed > 0 {
				_, err := schedule(*seed, c.ranks, t.Logf)
				require.NoError(t, err)
				return
			}
			sums := make([]Counts, runtime.GOMAXPROCS(0))
			t.Run("shard", func(t *testing.T) {
				for shard := range sums {
					t.Run(fmt.Sprint(shard), func(t *testing.T) {
						t.Parallel()
						sums[shard] = Counts{}
						for seed := shard + 1; seed <= schedules/c.share; seed += len(sums) {
							used, err := schedule(uint64(seed), c.ranks, nil)
							require.NoError(t, err,
								"go test %s -run 'TestSchedules/of_%d$' -v -seed %d", pkg, c.ranks, seed)
							sums[shard].add(used)
						}
					})
				}
			})
			for shard := range sums {
				sum.add(sums[shard])
			}
		})
	}
	return sum
}

func (c Counts) add(other Counts) {
	for at, n := range other {
		c[at] += n
	}
}
