package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/job"
)

// What PMI costs on the wire when 65,536 ranks on 4,096 nodes put 400 bytes
// each: if every node reads all of it, and if each rank reads log2 n values. The
// second is run. The first would be 100 GB of copies, and is reckoned by what
// TestReckonedBytes finds exact.
func TestPMIBytesAtScale(t *testing.T) {
	nodes, ppn := largest/16, 16
	size := nodes * ppn
	var directory, few, fewRoot uint64
	var below map[uint32]int
	for _, how := range []job.Transport{lazily, learning} {
		cfg := plan(nodes, ppn, "kary:8")
		below = subtrees(&cfg)
		x := pmi(t, cfg, how, doubling(size))
		x.run()
		require.Equal(t, size*len(x.ranksAhead(size)), x.taken)
		require.Zero(t, x.Sent[wire.KindWish], "log2 n values are no reason to send all of them")
		require.Equal(t, 2*nodes, x.Sent[wire.KindCollect])
		require.Equal(t, 2*nodes, x.Sent[wire.KindRelease])
		directory = x.Bytes[wire.KindCollect] + x.Bytes[wire.KindRelease]
		few, fewRoot = x.bytes()
		t.Logf("%d questions left their node", x.Outcome.Tally.Sum[job.CountAway])
	}
	_ = directory
	_ = fewRoot
	eager := reckonEager(below, size, ppn)
	t.Logf("eager %d few %d directory %d", eager, few, directory)
}

func (x *clients) ranksAhead(size int) (list []int) {
	for i := 0; 1<<i < size; i++ {
		list = append(list, 1<<i)
	}
	return list
}
