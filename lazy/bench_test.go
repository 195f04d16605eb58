package lazy

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/fabric/mem"
	"ibrun/internal/job"
	"ibrun/test/waitfor"
)

// full is a table that knows every node of a large job.
func full(t testing.TB, nodes, ppn uint32) *Table {
	layout := job.NewLayout([]job.Share{{Nodes: nodes, Ranks: ppn}})
	table := New(Config{Rank: 0, Epoch: 1, Layout: layout, Resolver: silent{},
		Seal: fabric.NewSeal(fabric.Key{}, 0, 1), Open: overMem(mem.New(1, mem.Faults{}))})
	require.NoError(t, table.Reach())
	t.Cleanup(func() { table.Close() })
	for node := uint32(1); node < nodes; node++ {
		b := fabric.Block{Node: node, First: node * ppn, Base: table.Tuple()}
		b.Base.Num = 0
		for i := range ppn {
			b.Ranks = append(b.Ranks, fabric.Entry{Epoch: 1, Num: 1 + i})
		}
		table.Answered(node*ppn, false, b.Append(nil), nil)
	}
	return table
}

// A cached look-up is arithmetic and one map: under a microsecond, and no memory.
func BenchmarkCachedLookup(b *testing.B) {
	table := full(b, 4096, 16)
	b.ReportAllocs()
	rank := uint32(16)
	for b.Loop() {
		if _, _, ok := table.known(rank, 1); !ok {
			b.Fatal(rank)
		}
		if rank += 977; rank >= 4096*16 {
			rank -= 4095 * 16
		}
	}
}

func TestCachedLookupAllocatesNothing(t *testing.T) {
	table := full(t, 64, 16)
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _, _ = table.known(777, 1) }))
}

// atRest is a kind of peer whose memory is bounded.
type atRest struct {
	name  string
	size  int     // of the messages that it was sent
	most  float64 // bytes of a peer
	open  func() func(fabric.Sink) (fabric.Fabric, error)
	peers []uint32 // of a table
	least uint32   // peers that are measured
	loop  bool     // it has a goroutine, whose stack counts
}

var kinds = []atRest{
	{"datagrams", 1, 4 << 10, func() func(fabric.Sink) (fabric.Fabric, error) {
		return overMem(mem.New(1, mem.Faults{}))
	}, []uint32{1, 15, 63, 1023}, 256, false},
	{"stream", 32 << 10, 64 << 10, func() func(fabric.Sink) (fabric.Fabric, error) { return overUDP },
		[]uint32{1, 15, 63, 1023}, 64, true},
}

// bytes is what a peer at rest costs that was sent messages and answered, in bytes of this
// process: what one of two such ranks has, with its part of what the table keeps for all. Small
// tables are measured several at once, or it would be what the process keeps.
func (k atRest) bytes(t testing.TB, peers uint32) float64 {
	count := (k.least + peers - 1) / peers
	var worlds []*world
	for range count {
		worlds = append(worlds, newWorld(t, peers+1, 1, k.open()).start())
	}
	ctx := within(t)
	before := k.used()
	for _, w := range worlds {
		for to := uint32(1); to <= peers; to++ {
			const burst = 20
			for range burst {
				require.NoError(t, w.table(0).Send(ctx, to, make([]byte, k.size)))
			}
			for range burst {
				_, err := w.table(to).Recv(ctx)
				require.NoError(t, err)
			}
			require.NoError(t, w.table(to).Send(ctx, 0, []byte("y")))
			_, err := w.table(0).RecvFrom(ctx, to)
			require.NoError(t, err)
		}
		require.NoError(t, w.table(0).Flush(ctx))
		require.Equal(t, k.size > 1, w.table(0).Tally().Sum[job.CountStreamed] > 0)
	}
	// They are at rest after the last timer of any.
	each, looks := math.Inf(1), 0
	_ = waitfor.True(func() bool {
		each, looks = min(each, (k.used()-before)/float64(count*peers)/2), looks+1
		return looks >= 12 && each < k.most
	})
	runtime.KeepAlive(worlds)
	return each
}

// used is the memory in use.
func (k atRest) used() float64 {
	runtime.GC()
	runtime.GC() // what pools keep lives through one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if k.loop {
		m.HeapAlloc += m.StackInuse
	}
	return float64(m.HeapAlloc)
}

// BenchmarkLivePeer reports what a connected peer costs, in bytes, and fails if that is too much.
func BenchmarkLivePeer(b *testing.B) {
	for _, k := range kinds {
		for _, peers := range k.peers {
			b.Run(fmt.Sprint(k.name, "/", peers), func(b *testing.B) {
				for b.Loop() {
					bytes := k.bytes(b, peers)
					b.ReportMetric(bytes, "bytes/peer")
					require.Less(b, bytes, k.most)
				}
			})
		}
	}
}

// A peer at rest costs at most 4 KiB, also if it is the only one.
func TestPeerAtRest(t *testing.T) {
	for _, peers := range []uint32{1, 63} {
		require.Less(t, kinds[0].bytes(t, peers), kinds[0].most)
	}
}
