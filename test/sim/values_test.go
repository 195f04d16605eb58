package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

var (
	eagerly  = job.Transport{Eager: true}
	lazily   = job.Transport{}
	learning = job.Transport{Learn: true}
)

// ranksBelowEdges returns a map from the number of each edge's child node to the number of ranks in the subtree of that
// node. The map is empty until the job is launched. ranksBelowEdges sets cfg.Sent to a function that fills the map from
// the Launch messages and then calls the previous cfg.Sent.
func ranksBelowEdges(cfg *Config) map[uint32]int {
	below := map[uint32]int{}
	sent := cfg.Sent
	cfg.Sent = func(edge uint32, up bool, m frame.Message) {
		if l, ok := m.(wire.Launch); ok {
			below[edge] = int(l.Nodes.Ranks())
		}
		if sent != nil {
			sent(edge, up, m)
		}
	}
	return below
}

// Over all trees and with each policy: a barrier is one message up and one down
// on each edge; eagerly nothing else is said; lazily each value that is asked
// for from anywhere crosses each edge once; a job that learns has one bulk fetch.
func TestBarrierCostsTwoMessagesPerEdge(t *testing.T) {
	const nodes, ppn, size = 12, 3, 12 * 3
	for _, shape := range shapes {
		bytes := map[string]uint64{}
		for name, how := range map[string]job.Transport{"eager": eagerly, "lazy": lazily, "learning": learning} {
			cfg := plan(nodes, ppn, shape)
			crossed := 0
			below := ranksBelowEdges(&cfg)
			x := pmiClients(t, cfg, how, everybody(size, ppn))
			x.run()
			for _, ranks := range below {
				if ranks < size { // otherwise nobody is on the other side
					crossed += size
				}
			}
			require.Equal(t, 2*nodes, x.Sent[rankwire.KindCollect], "%s %s", shape, name)
			require.Equal(t, 2*nodes, x.Sent[rankwire.KindRelease], "%s %s", shape, name)
			require.Equal(t, size*(nodes-1), x.taken)
			sums := x.Outcome.Tally.Sum
			require.Equal(t, uint64(2*2*nodes), sums[job.CountBarriers])
			require.Equal(t, uint64(x.taken), sums[job.CountGets])
			require.Equal(t, x.Sent[rankwire.KindAsk], x.Sent[rankwire.KindAnswer])
			bytes[name], _ = x.bytes()
			switch name {
			case "eager":
				require.Zero(t, x.Sent[rankwire.KindAsk]+x.Sent[wire.KindBulkFetch])
			case "lazy":
				require.Equal(t, crossed, x.Sent[rankwire.KindAsk])
				require.Zero(t, x.Sent[wire.KindBulkFetch])
			case "learning":
				require.Equal(t, uint64(1), sums[job.CountBulkFetches])
				require.Equal(t, 2*nodes, x.Sent[wire.KindBulkValues], "once up and once down on each edge")
				require.LessOrEqual(t, sums[job.CountAway], uint64(nodes*(8+ppn)))
				require.Less(t, x.Sent[rankwire.KindAsk], nodes*size/2)
			}
		}
		require.Less(t, 5*bytes["lazy"], 6*bytes["eager"], "%s: bytes on all edges: %v", shape, bytes)
		require.Less(t, 2*bytes["learning"], 3*bytes["eager"], "%s: bytes on all edges: %v", shape, bytes)
	}
}

// Nodes that have left, or leave while the values are gathered, take their values
// with them: it comes all the same, and a get of theirs is answered, by a no.
func TestBulkWithoutSomeNodes(t *testing.T) {
	const nodes, ppn, size = 20, 2, 40
	leaves := func(rank int) bool { return rank/ppn%9 == 8 }
	const leaving = 2 // nodes
	for _, shape := range shapes {
		for _, after := range []time.Duration{-1_000_000, 6, 20, 40} { // microseconds after the others begin to read
			cfg := plan(nodes, ppn, shape)
			rest := everybody(size, ppn)
			x := pmiClients(t, cfg, learning, func(rank, i int) (int, bool) {
				from, more := rest(rank, i)
				return from, more && !leaves(rank)
			})
			x.leaves = func(rank int) time.Duration {
				if leaves(rank) {
					return 0
				}
				return 20 * time.Second
			}
			refused := 0
			x.wrong = func(rank, from int, words string) {
				require.True(t, leaves(from), "rank %d was refused the value of %d: %s", rank, from, words)
				require.Contains(t, words, "rc=-1")
				refused++
			}
			for rank := range x.ranks {
				at := 10 * time.Second
				if leaves(rank) {
					at += after * time.Microsecond
				}
				x.At(at, func() { x.read(rank) })
			}
			x.run()
			require.Equal(t, (size-leaving*ppn)*(nodes-1), x.taken, shape)
			require.Equal(t, uint64(1), x.Outcome.Tally.Sum[job.CountBulkFetches], shape)
			if shape == "flat" && after < 0 { // elsewhere their agents may be there for others
				require.Equal(t, (nodes-leaving)*leaving*ppn, refused)
			}
		}
	}
}
