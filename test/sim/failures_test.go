package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// ward is a job that goes on when ranks fail, all of whose ranks have said hello.
type ward struct {
	*World
	ranks    uint32
	crossed  map[crossing]int          // number of Failures frames
	notified map[uint32]map[uint32]int // by rank: of which ranks, how often
}

func newWard(n, ppn int, shape string) *ward {
	cfg := plan(n, ppn, shape)
	cfg.Run = time.Minute
	cfg.Policy.KillOnBad, cfg.Job.Launch.KeepGoing = false, true
	w := &ward{ranks: cfg.Job.Size, notified: map[uint32]map[uint32]int{}}
	w.crossed = countCrossings(&cfg, rankwire.KindFailures)
	cfg.ToRank = func(_, rank uint32, m frame.Message) {
		f, _ := m.(rankwire.Failures)
		for s := range f.Ranks.All() {
			for r := s.First; r < s.End(); r++ {
				if w.notified[rank] == nil {
					w.notified[rank] = map[uint32]int{}
				}
				w.notified[rank][uint32(r)]++
			}
		}
	}
	w.World = New(cfg)
	w.At(3*time.Second, func() {
		for rank := range w.ranks {
			w.FromRank(rank/uint32(ppn), rank, rankwire.Hello{})
		}
	})
	return w
}

// fail lets ranks fail at some time after four seconds.
func (w *ward) fail(ppn int, spread func() time.Duration, ranks ...uint32) {
	for _, r := range ranks {
		w.At(4*time.Second+spread(), func() {
			w.exit(w.agents[r/uint32(ppn)], r, job.Status{Kind: job.Signaled, Code: 9})
		})
	}
}

// TestFailures lets one rank fail. That must cost one Failures frame down on each edge of the tree, and one up on each
// edge between the node of that rank and the root. Each of the remaining ranks must be notified once. A job without
// failures must send no Failures frames.
func TestFailures(t *testing.T) {
	const nodes, ppn = 64, 2
	for _, shape := range shapes {
		quiet := newWard(nodes, ppn, shape)
		require.NoError(t, quiet.Run(time.Hour))
		require.Zero(t, quiet.Sent[rankwire.KindFailures], shape)

		const victim = 101
		w := newWard(nodes, ppn, shape)
		w.fail(ppn, func() time.Duration { return 0 }, victim)
		require.NoError(t, w.Run(time.Hour))
		require.Equal(t, 137, w.Outcome.Code)
		up := len(w.crossed) - nodes
		requireOnceEach(t, w.crossed, nodes+up)
		for edge := range uint32(nodes) {
			require.Contains(t, w.crossed, crossing{edge, false, rankwire.KindFailures}, shape)
		}
		switch shape {
		case "flat":
			require.Equal(t, 1, up)
		case "chain":
			require.Equal(t, victim/ppn+1, up)
		default:
			require.Less(t, up, 10, shape)
		}
		for rank := range uint32(nodes * ppn) {
			if rank != victim {
				require.Equal(t, map[uint32]int{victim: 1}, w.notified[rank], "%s: rank %d", shape, rank)
			}
		}
	}
}

// Many failures at about the same time share their frames, and every rank that lives is told of
// each, once.
func TestManyFailures(t *testing.T) {
	const nodes, ppn = 64, 4
	for seed, shape := range shapes {
		r := rand.New(rand.NewPCG(uint64(seed), 5))
		w := newWard(nodes, ppn, shape)
		var victims []uint32
		for _, v := range r.Perm(nodes * ppn)[:100] {
			victims = append(victims, uint32(v))
		}
		w.fail(ppn, func() time.Duration { return time.Duration(r.IntN(20_000)) * time.Microsecond }, victims...)
		require.NoError(t, w.Run(time.Hour))
		// most limits the Failures frames on an edge in one direction. The first of the 100 failures is sent at once.
		// Each level of the tree merges the failures that follow, which costs one more frame.
		most := 8
		if shape == "chain" {
			most = nodes + 2
		}
		for c, n := range w.crossed {
			require.LessOrEqual(t, n, most, "%s: %+v", shape, c)
		}
		dead := map[uint32]bool{}
		for _, v := range victims {
			dead[v] = true
		}
		for rank := range uint32(nodes * ppn) {
			if !dead[rank] {
				require.Len(t, w.notified[rank], len(victims), "%s: rank %d", shape, rank)
				for v, n := range w.notified[rank] {
					require.True(t, dead[v] && n == 1, "%s: rank %d was told %d times of %d", shape, rank, n, v)
				}
			}
		}
	}
}
