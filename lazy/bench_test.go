package lazy

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/rankwire"
	"ibrun/fabric"
	"ibrun/fabric/mem"
	"ibrun/job"
)

// full is a table that knows every node of a large job.
func full(t testing.TB, nodes, ppn uint32) *Table {
	layout := job.NewLayout([]job.Share{{Nodes: nodes, Ranks: ppn}})
	table, err := New(Config{Rank: 0, Epoch: 1, Layout: layout, Agent: silent{},
		Seal: fabric.NewSeal(fabric.Key{}, 0, 1), Open: overMem(mem.New(1, mem.Faults{}))})
	require.NoError(t, err)
	t.Cleanup(func() { table.Close() })
	for node := uint32(1); node < nodes; node++ {
		b := fabric.Block{Node: node, First: node * ppn, Base: table.Tuple()}
		b.Base.Num = 0
		for i := range ppn {
			b.Ranks = append(b.Ranks, fabric.Entry{Epoch: 1, Num: 1 + i})
		}
		table.Answered(rankwire.Answer{Rank: job.Slot(node * ppn), Value: b.Append(nil)})
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

// peerBytes is what a peer at rest costs that was sent messages and answered, in bytes of the
// heap: what one of two such ranks has, with its part of what the table keeps for all. Both are in
// this process. Small tables are measured several at once, or it would be what the process keeps.
func peerBytes(t testing.TB, peers uint32) float64 {
	const least = 256
	count := (least + peers - 1) / peers
	var worlds []*world
	for range count {
		worlds = append(worlds, newWorld(t, peers+1, 1, overMem(mem.New(1, mem.Faults{}))).start())
	}
	ctx := within(t)
	heap := func() float64 {
		runtime.GC()
		runtime.GC() // what pools keep lives through one
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	// At rest, which is after the last timer of any peer.
	rest := func() float64 {
		least := heap()
		for same := 0; same < 3; same++ {
			<-time.After(20 * time.Millisecond)
			if now := heap(); now < least-1024 {
				least, same = now, 0
			}
		}
		return least
	}
	before := heap()
	for _, w := range worlds {
		for to := uint32(1); to <= peers; to++ {
			const burst = 20
			for range burst {
				require.NoError(t, w.table(0).Send(ctx, to, []byte("x")))
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
	}
	bytes := (rest() - before) / float64(count*peers) / 2
	runtime.KeepAlive(worlds)
	return bytes
}

// BenchmarkLivePeer reports what a connected peer costs, in bytes.
func BenchmarkLivePeer(b *testing.B) {
	for _, peers := range []uint32{1, 15, 63, 1023} {
		b.Run(fmt.Sprint(peers), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(peerBytes(b, peers), "bytes/peer")
			}
		})
	}
}

// A peer at rest costs at most 4 KiB.
func TestPeerAtRest(t *testing.T) {
	require.Less(t, peerBytes(t, 63), 4096.0)
}
