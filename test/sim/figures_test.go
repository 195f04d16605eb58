package sim

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/rankwire"
	"ibrun/bootstrap/wire"
)

// What PMI costs on the wire when 65,536 ranks on 4,096 nodes put 400 bytes each and each rank
// reads log2 n of the values. Policy eager would send all values down each edge.
func TestPMIBytesAtScale(t *testing.T) {
	t.Parallel()
	nodes, ppn := scale.clientNodes, 16
	size := nodes * ppn
	x := pmi(t, plan(nodes, ppn, "kary:8"), learning, doubling(size))
	x.run()
	require.Equal(t, size*bits.Len(uint(size-1)), x.taken)
	require.Equal(t, 2*nodes, x.Sent[rankwire.KindCollect])
	require.Equal(t, 2*nodes, x.Sent[rankwire.KindRelease])
	all, root := x.bytes()
	fences := x.Bytes[rankwire.KindCollect] + x.Bytes[rankwire.KindRelease]
	eager := uint64(nodes * size * valueSize)
	t.Logf("%d ranks on %d nodes put %d bytes each: %.1f MB on all edges, %.4f of eager's at least, and %.2f MB on "+
		"the root's; a fence is %.0f bytes on an edge", size, nodes, valueSize, float64(all)/1e6,
		float64(all)/float64(eager), float64(root)/1e6, float64(fences)/float64(nodes)/2)
	require.Less(t, fences, uint64(128*nodes), "a fence is as short for many ranks as for few")
	if scale.whole() { // the values of few ranks cost no more than log2 n look-ups
		require.Zero(t, x.Sent[wire.KindBulkFetch],
			"log2 n values are no reason to send all: auto and lazy are the same")
		require.Less(t, 80*all, eager)
		require.Less(t, root, uint64(8*size*valueSize), "what eager sends to the eight children of the root")
	}
}
