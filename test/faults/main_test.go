// Package faults breaks jobs of the real binary at random, on virtual clusters of 16 nodes with
// real sshd: it kills one process, cuts one node off, or gives ibrun malformed input, and holds
// what follows against the promises of docs/faults.md and docs/cli.md. Tests of a fault that
// is known belong elsewhere; here a seed draws what happens, and when.
package faults

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/skip"
	"ibrun/test/product"
	"ibrun/test/vcluster/cluster"
)

// Without these the tests are the short selection of make test.
var (
	seed   = flag.Uint64("seed", 1, "draws all rounds")
	kills  = flag.Int("kills", 5, "rounds in which one process is killed")
	stops  = flag.Int("stops", 0, "rounds in which one agent is stopped; each takes more than a minute")
	cuts   = flag.Int("cuts", 2, "rounds in which one node is cut off")
	inputs = flag.Int("inputs", 40, "malformed inputs")
	only   = flag.Int("only", -1, "the only round of each kind that is run, by its number")
	each   = flag.Bool("each", false, "a line for each round, too")
	sites  = flag.Int("clusters", 6, "clusters at once")
	stages = flag.Int("stages", 3, "clusters at once for the cases of the catalogue")
)

const nodes = 16

// Programs, as all hosts see them: ranks in shared, ibrun outside of what nodes see, so that
// they have to be sent it.
var program, programs string

func TestMain(m *testing.M) { os.Exit(product.Run(m, &program)) }

// round is one fault in one job.
type round struct {
	kind  string // of its flag
	index int
	rng   *rand.Rand
	fault fault
	shape shape
}

// fault is what is done to a job.
type fault struct {
	class string // by which rounds are counted
	phase string // launch, running, ending
	after time.Duration
	// strike does it and says what it did; undo takes back what would hurt the next round.
	strike  func(*site, *round) (string, error)
	undo    func(*site, *round) error
	victim  string // the host
	cutOff  bool   // sshd is not told that sessions are over
	litters bool   // files may stay behind
	promise
}

// promise is what must follow a fault in a job that runs.
type promise struct {
	end    time.Duration // until ibrun has ended
	clean  time.Duration // until nothing is left on any node
	code   int           // of ibrun
	goesOn bool          // or the job may go on
}

// slack is what a machine that is busy with other clusters may add.
const slack = 10 * time.Second

func (r *round) String() string {
	text := fmt.Sprintf("-%s, -seed %d -only %d: %s", r.kind, *seed, r.index, r.fault.class)
	if r.fault.phase == "" {
		return text
	}
	return fmt.Sprintf("%s while %s: %s", text, r.fault.phase, r.shape)
}

func newRound(kind string, index int, draw func(*round)) *round {
	var salt uint64
	for _, c := range kind {
		salt = salt*31 + uint64(c)
	}
	r := &round{kind: kind, index: index, rng: rand.New(rand.NewPCG(*seed, salt<<32+uint64(index)))}
	draw(r)
	return r
}

// drawn makes the rounds of a kind.
func drawn(kind string, count int, draw func(*round)) (rounds []*round) {
	for i := range count {
		if *only < 0 || *only == i {
			rounds = append(rounds, newRound(kind, i, draw))
		}
	}
	return rounds
}

// TestFaults runs all rounds in which something is killed or cut.
func TestFaults(t *testing.T) {
	if os.Geteuid() != 0 {
		skip.Because(t, cluster.ErrNotRoot.Error())
	}
	t.Parallel()
	all := slices.Concat(drawn("stops", *stops, drawStop), drawn("cuts", *cuts, drawCut),
		drawn("kills", *kills, drawKill))
	// The long ones first, so that no cluster runs alone at the end.
	slices.SortStableFunc(all, func(a, b *round) int { return int(b.fault.end - a.fault.end) })
	queue := make(chan *round, len(all))
	for _, r := range all {
		queue <- r
	}
	close(queue)
	results := &report{}
	var work sync.WaitGroup
	for range min(*sites, (len(all)+3)/4) { // a cluster for one round costs more than the round
		work.Go(func() {
			s, err := newSite(t)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.close()
			for r := range queue {
				results.add(t, r, s.play(r))
			}
		})
	}
	work.Wait()
	require.Equal(t, len(all), results.rounds(), "rounds that were played")
	results.print()
}

// buildRanks puts the programs of ranks where they can be shared.
var buildRanks = sync.OnceValue(func() error {
	programs = filepath.Join(filepath.Dir(program), "ranks")
	if err := os.Mkdir(programs, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"talker", "pmi"} {
		if err := product.Program(filepath.Join(programs, name), "ibrun/test/"+name); err != nil {
			return err
		}
	}
	return command("mpicc.mpich", "-o", filepath.Join(programs, "mpi"), "../e2e/testdata/mpi.c")
})
