// Package seeded runs the seeded schedules of a test: many of them, on all CPUs, or the one that a
// failure has named. It does not know what a schedule is.
package seeded

import (
	"flag"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// All is how many schedules reach every row of the tables that they count the use of.
const All = 100_000

// Flags are what a user of the tests chooses.
type Flags struct {
	seed  *uint64
	total *int
}

// NewFlags registers -seed, and -schedules with a number for usual runs. It is called before the
// flags are parsed.
func NewFlags(usual int) Flags {
	return Flags{
		seed:  flag.Uint64("seed", 0, "run only this schedule of the simulator, and tell all"),
		total: flag.Int("schedules", usual, "schedules of two ranks; a tenth of that for eight"),
	}
}

// Run runs schedules of two ranks, and a tenth as many of eight, and a tenth of all that with the
// race detector or -short. A schedule returns what it has used, which add sums up; log is nil but
// for the one that -seed names. A failure prints the command that replays it, in the package. full
// reports whether at least [All] schedules have run.
func Run[U any](t *testing.T, f Flags, pkg string,
	schedule func(seed uint64, ranks int, log func(string, ...any)) (*U, error), add func(sum, used *U),
) (sum U, full bool) {
	full = *f.seed == 0
	for _, c := range []struct{ ranks, share int }{{2, 1}, {8, 10}} {
		t.Run(fmt.Sprintf("of %d", c.ranks), func(t *testing.T) {
			if *f.seed > 0 {
				_, err := schedule(*f.seed, c.ranks, t.Logf)
				require.NoError(t, err)
				return
			}
			total := *f.total / c.share
			if raced || testing.Short() {
				total /= 10
			}
			sums := make([]U, runtime.GOMAXPROCS(0))
			t.Run("shard", func(t *testing.T) {
				for shard := range sums {
					t.Run(fmt.Sprint(shard), func(t *testing.T) {
						t.Parallel()
						for seed := shard + 1; seed <= total; seed += len(sums) {
							used, err := schedule(uint64(seed), c.ranks, nil)
							require.NoError(t, err,
								"go test %s -run 'TestSchedules/of_%d$' -v -seed %d", pkg, c.ranks, seed)
							add(&sums[shard], used)
						}
					})
				}
			})
			for shard := range sums {
				add(&sum, &sums[shard])
			}
			full = full && total*c.share >= All
		})
	}
	return sum, full
}
