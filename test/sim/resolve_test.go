package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/fabric"
	"ibrun/internal/job"
)

// tupleOf is the address that a rank publishes in these tests.
func tupleOf(node, rank uint32) fabric.Tuple {
	t := fabric.Tuple{Kind: fabric.ETH4, Num: 20000 + rank%40000}
	t.Addr = [16]byte{10, byte(node >> 16), byte(node >> 8), byte(node)}
	return t
}

// lookups is a job whose ranks publish at three seconds and then ask.
type lookups struct {
	*World
	t        *testing.T
	asked    int
	answered int
	negative map[rankwire.Answered]int
}

// answers prepares a job whose ranks may ask.
func answers(t *testing.T, cfg Config) *lookups {
	l := &lookups{t: t, negative: map[rankwire.Answered]int{}}
	cfg.Run = time.Minute
	cfg.ToRank = func(node, rank uint32, m frame.Message) {
		if _, ok := m.(rankwire.Wanted); ok { // it runs
			l.At(l.Now(), func() { l.FromRank(node, rank, rankwire.Publish{Tuple: tupleOf(node, rank)}) })
		}
		a, ok := m.(rankwire.Answer)
		if !ok {
			return
		}
		l.answered++
		if a.What != rankwire.Found {
			l.negative[a.What]++
			return
		}
		b, err := fabric.ParseBlock(a.Value)
		if err != nil {
			t.Fatalf("rank %d got a block that does not parse", rank)
		}
		if tuple, _, ok := b.Tuple(uint32(a.Rank)); !ok || tuple != tupleOf(b.Node, uint32(a.Rank)) {
			t.Fatalf("rank %d asked for %d and got %v", rank, a.Rank, tuple)
		}
	}
	l.World = New(cfg)
	return l
}

// lookup prepares a job; ask gives the ranks that each rank asks for.
func lookup(t *testing.T, cfg Config, ask func(rank uint32) []uint32) *lookups {
	l := answers(t, cfg)
	ppn := cfg.Job.Size / cfg.Job.Nodes
	for node := range cfg.Job.Nodes {
		l.At(3*time.Second, func() {
			for i := range ppn {
				l.FromRank(node, node*ppn+i, rankwire.Publish{Tuple: tupleOf(node, node*ppn+i)})
			}
		})
		l.At(5*time.Second+time.Duration(node)*time.Microsecond, func() {
			for i := range ppn {
				for _, to := range ask(node*ppn + i) {
					l.asked++
					l.FromRank(node, node*ppn+i, rankwire.Ask{Rank: job.Slot(to)})
				}
			}
		})
	}
	return l
}

func (l *lookups) run() {
	l.t.Helper()
	l.complete(l.t, time.Hour)
	require.Equal(l.t, l.asked, l.answered)
}

// addresses is the bytes between agents that addresses cost.
func (l *lookups) addresses() uint64 {
	return l.Bytes[rankwire.KindAsk] + l.Bytes[rankwire.KindAnswer] + l.Bytes[wire.KindBlocks]
}

// stencil gives the neighbours on other nodes in a box of ranks, one per node.
func stencil(dims [3]int, ppn int) func(rank uint32) []uint32 {
	return func(rank uint32) (list []uint32) {
		stride := 1
		for _, n := range dims {
			at := int(rank) / stride % n
			for _, to := range []int{int(rank) - stride, int(rank) + stride} {
				inside := at > 0 && to < int(rank) || at < n-1 && to > int(rank)
				if inside && to/ppn != int(rank)/ppn {
					list = append(list, uint32(to))
				}
			}
			stride *= n
		}
		return list
	}
}

// A million ranks exchange with their neighbours in three dimensions: at most
// 1/150 of the bytes that the whole table would cost, and next to nothing
// passes the root.
func TestStencilAtScale(t *testing.T) {
	t.Parallel()
	dims := [3]int{32, 16, 8}
	if scale.whole() {
		dims = [3]int{128, 128, 64}
	}
	const ppn = 16
	size := dims[0] * dims[1] * dims[2]
	cfg := plan(size/ppn, ppn, "auto")
	cfg.Job.Transport.Stats = true
	l := lookup(t, cfg, stencil(dims, ppn))
	l.run()
	table := uint64(len(block(0, ppn).Append(nil))) * uint64(size/ppn)
	eager := table * uint64(size/ppn) // down every edge; and up, which is not counted here
	levels := l.Outcome.Tally.Levels
	share := float64(levels[0].Asked) / float64(l.asked)
	t.Logf("%d ranks, %d look-ups; %.1f bytes per rank between agents, eager %.0f: 1/%.0f; the root saw %.3f %%",
		size, l.asked, float64(l.addresses())/float64(size), float64(eager)/float64(size),
		float64(eager)/float64(l.addresses()), 100*share)
	if scale.whole() {
		require.Less(t, 150*l.addresses(), eager)
		require.Less(t, share, 0.02)
	}
	var own, hit, merged, asked uint64
	for _, v := range levels {
		own, hit, merged, asked = own+v.Own, hit+v.Hit, merged+v.Merged, asked+v.Asked
	}
	require.Equal(t, asked, own+hit+merged+uint64(l.Sent[rankwire.KindAsk]))
	require.Equal(t, l.Sent[rankwire.KindAsk], l.Sent[rankwire.KindAnswer])
}

func block(node, ppn uint32) *fabric.Block {
	b := &fabric.Block{Node: node, First: node * ppn, Base: tupleOf(node, 0)}
	b.Base.Num = 0
	for i := range ppn {
		b.Ranks = append(b.Ranks, fabric.Entry{Epoch: 1, Num: 20000 + (node*ppn+i)%40000})
	}
	return b
}

// Whoever talks to whom: a block crosses each edge at most once, and a
// question costs at most twice its way.
func TestRandomPairsCrossEdgesOnce(t *testing.T) {
	for _, shape := range shapes {
		nodes := 8 + scale.sample(192)
		if shape == "chain" {
			nodes = min(nodes, 60)
		}
		cfg := plan(nodes, 4, shape)
		crossed := map[[2]uint32]int{}
		cfg.Sent = func(edge uint32, up bool, m frame.Message) {
			if a, ok := m.(rankwire.Answer); ok && a.What == rankwire.Found {
				node, _ := fabric.BlockNode(a.Value)
				crossed[[2]uint32{edge, node}]++
			}
		}
		rng := rand.New(rand.NewPCG(7, 7))
		l := lookup(t, cfg, func(rank uint32) (list []uint32) {
			for range 20 {
				list = append(list, rng.Uint32N(cfg.Job.Size))
			}
			return list
		})
		l.run()
		for edge, n := range crossed {
			require.Equal(t, 1, n, "%s: block of node %d over the edge to node %d", shape, edge[1], edge[0])
		}
		require.Equal(t, len(crossed), l.Sent[rankwire.KindAnswer])
		require.Equal(t, l.Sent[rankwire.KindAsk], l.Sent[rankwire.KindAnswer])
	}
}

// A job that chooses and has a small table sends it as eager mode does. With a large one, nodes
// that ask for little cost what they cost lazily. When one asks for enough, the blocks rise and
// come down once on each edge, and nodes ask for nothing after that.
func TestChosenTables(t *testing.T) {
	const nodes, enough = 400, 2 // 400 nodes and ranks are 10.5 KiB
	some := func(n uint32) func(rank uint32) []uint32 {
		return func(rank uint32) (list []uint32) {
			for i := range n {
				list = append(list, (rank+1+i)%nodes)
			}
			return list
		}
	}
	require.True(t, job.Enough(enough, job.TableBytes(nodes, nodes)))
	require.False(t, job.Enough(enough-1, job.TableBytes(nodes, nodes)))
	for _, shape := range []string{"kary:3", "flat"}[:scale.sample(2)] {
		cfg := plan(nodes, 1, shape)
		cfg.Job.Transport = job.Transport{Eager: true, Learn: true}
		l := lookup(t, cfg, some(3))
		l.run()
		require.Equal(t, 2*nodes, l.Sent[wire.KindBlocks], shape)

		cfg = plan(nodes, 1, shape)
		cfg.Job.Transport.Learn = true
		l = lookup(t, cfg, some(1))
		l.run()
		require.Zero(t, l.Sent[wire.KindTableFetch]+l.Sent[wire.KindTableValues]+l.Sent[wire.KindBlocks], shape)

		cfg = plan(nodes, 1, shape)
		cfg.Job.Transport.Learn, cfg.Job.Transport.Stats = true, true
		l = lookup(t, cfg, some(20))
		l.run()
		require.NotZero(t, l.Sent[wire.KindTableFetch])
		require.LessOrEqual(t, l.Sent[wire.KindTableFetch], 2*nodes, shape)
		require.LessOrEqual(t, l.Sent[wire.KindTableValues], 2*nodes, shape)
		level := *l.Outcome.Tally.Level(0)
		require.LessOrEqual(t, level.Asked, uint64(2*enough*nodes), shape)
	}
}

// A collective is one message up and one down on each edge, whatever it is.
func TestCollectiveCostsTwoMessagesPerEdge(t *testing.T) {
	for _, shape := range shapes {
		const nodes, size, root = 12, 36, 29
		cfg := plan(nodes, 3, shape)
		got := map[uint32]int{}
		var w *World
		cfg.Run = time.Minute
		cfg.ToRank = func(_, rank uint32, m frame.Message) {
			r, ok := m.(rankwire.Release)
			if !ok {
				return
			}
			require.Empty(t, r.Trouble)
			want := map[rankwire.Collective]int{rankwire.Barrier: 0, rankwire.Broadcast: 1, rankwire.AllGather: size,
				rankwire.AllToAll: size, rankwire.Scatter: 1}[r.What]
			if r.What == rankwire.Gather && rank == root {
				want = size
			}
			require.Equal(t, want, r.Parcels.Len(), "%v at rank %d", r.What, rank)
			for p := range r.Parcels.All() {
				require.True(t, p.To == job.Slot(rank) || p.To == rankwire.Everyone)
				require.Equal(t, []byte{byte(p.From), byte(p.To)}, p.Value)
			}
			got[rank]++
		}
		w = New(cfg)
		value := func(from, to uint32) rankwire.Parcel {
			return rankwire.Parcel{From: job.Slot(from), To: job.Slot(to), Value: []byte{byte(from), byte(to)}}
		}
		for op, what := range []rankwire.Collective{rankwire.Barrier, rankwire.Broadcast, rankwire.Gather,
			rankwire.AllGather, rankwire.Scatter, rankwire.AllToAll} {
			w.At(time.Duration(3+op)*time.Second, func() {
				for rank := range uint32(size) {
					m := rankwire.Collect{Op: uint32(op + 1), What: what}
					switch what {
					case rankwire.Broadcast, rankwire.Gather, rankwire.Scatter:
						m.Root = root
					}
					switch {
					case what == rankwire.Broadcast && rank == root, what == rankwire.AllGather:
						m.Parcels = rankwire.NewParcels(value(rank, uint32(rankwire.Everyone)))
					case what == rankwire.Gather:
						m.Parcels = rankwire.NewParcels(value(rank, root))
					case what == rankwire.Scatter && rank == root, what == rankwire.AllToAll:
						for to := range uint32(size) {
							m.Parcels.Add(rankwire.NewParcels(value(rank, to)))
						}
					}
					w.FromRank(rank/3, rank, m)
				}
			})
		}
		w.complete(t, time.Hour)
		require.Equal(t, 6*nodes, w.Sent[rankwire.KindCollect], shape)
		require.Equal(t, 6*nodes, w.Sent[rankwire.KindRelease], shape)
		require.Len(t, got, size)
		for rank, n := range got {
			require.Equal(t, 6, n, "rank %d", rank)
		}
	}
}

// Questions about ranks that have not published wait; about those that have
// ended or do not exist they are answered at once.
func TestParkedAndNegative(t *testing.T) {
	for _, eager := range []bool{false, true} {
		cfg := plan(30, 2, "kary:3")
		cfg.Job.Transport.Eager = eager
		l := lookup(t, cfg, func(uint32) []uint32 { return nil })
		ask := func(at time.Duration, from, to uint32) {
			l.At(at, func() {
				l.asked++
				l.FromRank(from/2, from, rankwire.Ask{Rank: job.Slot(to), Fresh: at > 8*time.Second})
			})
		}
		ask(500*time.Millisecond, 0, 59) // before anybody has published
		ask(500*time.Millisecond, 0, 60)
		ask(500*time.Millisecond, 0, 1<<31)
		l.At(900*time.Millisecond, func() { require.Equal(t, 2, l.answered) })
		l.At(7*time.Second, func() { require.Equal(t, 3, l.answered) })
		l.At(8*time.Second, func() { l.FromRank(29, 59, rankwire.Finalize{}) })
		ask(9*time.Second, 3, 59)
		ask(9*time.Second, 4, 58) // the same node's other rank still answers
		l.run()
		require.Equal(t, map[rankwire.Answered]int{rankwire.NoRank: 2, rankwire.Exited: 1}, l.negative)
	}
}

// Two ranks of each node publish late: one block is enough for all who asked
// before, and a partial one serves those who asked for a rank that has.
func TestPartialBlocks(t *testing.T) {
	cfg := plan(10, 4, "kary:2")
	cfg.Run = time.Minute
	got := map[uint32]time.Duration{}
	var w *World
	cfg.ToRank = func(_, rank uint32, m frame.Message) {
		if a, ok := m.(rankwire.Answer); ok && a.What == rankwire.Found &&
			fabric.Published(a.Value, uint32(a.Rank)) == 1 {
			got[rank] = w.Now()
		}
	}
	w = New(cfg)
	say := func(at time.Duration, rank uint32, m frame.Message) { w.At(at, func() { w.FromRank(rank/4, rank, m) }) }
	say(time.Second, 36, rankwire.Publish{Tuple: tupleOf(9, 36)})
	say(2*time.Second, 0, rankwire.Ask{Rank: 36})
	say(2*time.Second, 1, rankwire.Ask{Rank: 37})
	say(3*time.Second, 37, rankwire.Publish{Tuple: tupleOf(9, 37)})
	say(4*time.Second, 38, rankwire.Publish{Tuple: tupleOf(9, 38)})
	say(4*time.Second, 39, rankwire.Publish{Tuple: tupleOf(9, 39)})
	require.NoError(t, w.Run(time.Hour))
	require.InDelta(t, float64(2*time.Second+10*time.Millisecond), float64(got[0]), float64(time.Millisecond))
	require.InDelta(t, float64(3*time.Second+10*time.Millisecond), float64(got[1]), float64(time.Millisecond))
}
