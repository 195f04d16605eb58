// Package seeded runs simulations with random events, called schedules, on all CPUs. A seed determines all events of a
// schedule, so that the option -seed of go test can replay it. The calling test implements the simulation.
package seeded

import (
	"flag"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

var seed = flag.Uint64("seed", 0, "run only this schedule of the simulator, and log all")

// Counts maps {state, input} of a state machine to the number of times that the machine got the input in that state.
type Counts map[[2]int]int

// Run calls schedule for two ranks with each seed from 1 to schedules, and for eight ranks with each seed from 1 to
// schedules/10. It passes nil as log. Run returns the sum of all counts.
//
// With the option -seed, Run calls schedule with that seed only, once for two and once for eight ranks. It passes
// t.Logf as log, and returns no counts.
//
// If a schedule fails, Run prints a go test command that replays it. The parameter pkg names the package in that
// command.
func Run(t *testing.T, schedules int, pkg string,
	schedule func(seed uint64, ranks int, log func(string, ...any)) (Counts, error),
) Counts {
	sum, test := Counts{}, t.Name()
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
								"go test %s -run '^%s$/of_%d$' -v -seed %d", pkg, test, c.ranks, seed)
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
