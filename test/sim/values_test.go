package sim

import (
	"encoding/binary"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/frame"
	"ibrun/bootstrap/rankwire"
	"ibrun/bootstrap/wire"
	"ibrun/job"
)

var (
	eagerly  = job.Transport{Eager: true}
	lazily   = job.Transport{}
	learning = job.Transport{Learn: true}
)

// subtrees notes the ranks below each edge, by the edge's child, and apart those
// below the root's edges.
func subtrees(cfg *Config) (below, atRoot map[uint32]int) {
	below, atRoot = map[uint32]int{}, map[uint32]int{}
	sent := cfg.Sent
	cfg.Sent = func(edge uint32, up bool, m frame.Message) {
		if l, ok := m.(wire.Launch); ok {
			if below[edge] = int(l.Nodes.Ranks()); l.Level == 1 {
				atRoot[edge] = below[edge]
			}
		}
		if sent != nil {
			sent(edge, up, m)
		}
	}
	return below, atRoot
}

// frameSize is a frame's size on the wire.
func frameSize(m frame.Message) uint64 { return uint64(len(frame.Append(nil, m))) }

// digits sums what f gives for keys of each length, over the ranks [first, end).
func digits(first, end int, f func(key string) uint64) (sum uint64) {
	for low, high := 0, 10; first < end; low, high = high, high*10 {
		if n := min(end, high) - max(first, low); n > 0 {
			sum += uint64(n) * f("addr-"+strconv.Itoa(max(first, low)))
			first = min(end, high)
		}
	}
	return sum
}

// pairs is what all values of ranks take in a parcel or a bulk fetch.
func pairs(first, end int, more uint64) uint64 {
	return digits(first, end, func(key string) uint64 { return uint64(1+len(key)+2+valueSize) + more })
}

// asking is what it costs to ask for the values of ranks over one edge, once each.
func asking(first, end int) (sum uint64) {
	value := make([]byte, valueSize)
	for _, w := range []int{1 << 7, 1 << 14, 1 << 21, 1 << 28} { // lengths of a rank's number
		if to := min(end, w); first < to {
			sum += digits(first, to, func(key string) uint64 {
				key = "1 " + key
				return frameSize(rankwire.Ask{Rank: job.Slot(w - 1), Key: key}) +
					frameSize(rankwire.Answer{Rank: job.Slot(w - 1), Key: key, Value: value})
			})
			first = to
		}
	}
	return sum
}

// holding is the size of a message with one part of so many bytes, given the
// message with that part empty.
func holding(m frame.Message, bytes uint64) uint64 {
	return frameSize(m) - 1 + uint64(len(binary.AppendUvarint(nil, bytes))) + bytes
}

// reckonEager is what clients of this package cost on all edges with policy eager.
func reckonEager(below map[uint32]int, size, ppn int) (sum uint64) {
	carrying := func(first, end int) uint64 {
		m := rankwire.Release{Op: 1, Parcels: rankwire.NewParcels(rankwire.Parcel{From: job.Slot(first),
			To: rankwire.Everyone})}
		return holding(m, 1+pairs(first, end, 0))
	}
	for edge, ranks := range below {
		first := int(edge) * ppn
		sum += carrying(first, first+ranks) + carrying(0, size) + 2*frameSize(rankwire.Release{Op: 2})
	}
	return sum
}

// reckonBulk is what a bulk fetch of theirs costs that all nodes ask for, with the requests.
func reckonBulk(below map[uint32]int, size, ppn int) (sum uint64) {
	whole := uint64(0)
	node := func(first int) uint64 {
		n := pairs(first, first+ppn, 1)
		return n + uint64(len(binary.AppendUvarint(nil, n)))
	}
	for first := 0; first < size; first += ppn {
		whole += node(first)
	}
	carrying := func(nodes int) uint64 {
		return frameSize(wire.BulkValues{Fence: 1, Values: frame.NewValues(make([][]byte, nodes)...)}) - uint64(nodes)
	}
	for edge, ranks := range below {
		sum += whole + carrying(size/ppn) + carrying(ranks/ppn) + 2*frameSize(wire.BulkFetch{Fence: 1})
		for i := range ranks / ppn {
			sum += node((int(edge) + i) * ppn)
		}
	}
	return sum
}

// reckonAsked is what nodes ask for at most before they ask for a bulk fetch, when each
// reads the nodes behind it in their order: a look-up for each 8 KiB of all values, eight at least,
// and what its ranks ask for at the same time; each value crosses an edge once.
func reckonAsked(below map[uint32]int, size, ppn int) (sum uint64) {
	enough := max(8, int(asking(0, size))/job.LookupBytes) + 2*ppn
	for _, ranks := range below {
		sum += uint64(enough+min(enough, ranks)) * asking(size-1, size)
	}
	return sum
}

// Over all trees and with each policy: a barrier is one message up and one down
// on each edge; eagerly nothing else is said; lazily each value that is asked
// for from anywhere crosses each edge once; a job that learns has one bulk fetch.
func TestBarrierCostsTwoMessagesPerEdge(t *testing.T) {
	const nodes, ppn, size = 16, 3, 16 * 3
	for _, shape := range shapes {
		for name, how := range map[string]job.Transport{"eager": eagerly, "lazy": lazily, "learning": learning} {
			cfg := plan(nodes, ppn, shape)
			crossed := 0
			below, _ := subtrees(&cfg)
			x := pmi(t, cfg, how, everybody(size, ppn))
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
	}
}

// What the figures at scale are reckoned from is exact where it can be run.
func TestReckonedBytes(t *testing.T) {
	const nodes, ppn, size = 20, 8, 20 * 8
	cfg := plan(nodes, ppn, "kary:3")
	below, atRoot := subtrees(&cfg)
	x := pmi(t, cfg, eagerly, everybody(size, ppn))
	x.run()
	all, root := x.bytes()
	require.Equal(t, reckonEager(below, size, ppn), all)
	require.Equal(t, reckonEager(atRoot, size, ppn), root)

	cfg = plan(nodes, ppn, "kary:3")
	x = pmi(t, cfg, lazily, everybody(size, ppn))
	x.run()
	require.Equal(t, uint64(nodes)*asking(0, size), x.Bytes[rankwire.KindAsk]+x.Bytes[rankwire.KindAnswer])

	cfg = plan(nodes, ppn, "kary:3")
	x = pmi(t, cfg, learning, everybody(size, ppn))
	x.run()
	require.Equal(t, reckonBulk(below, size, ppn), x.Bytes[wire.KindBulkValues]+x.Bytes[wire.KindBulkFetch])
	asked := x.Bytes[rankwire.KindAsk] + x.Bytes[rankwire.KindAnswer]
	require.LessOrEqual(t, asked, reckonAsked(below, size, ppn))
	require.Greater(t, 4*asked, reckonAsked(below, size, ppn))
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
			x := pmi(t, cfg, learning, func(rank, i int) (int, bool) {
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
