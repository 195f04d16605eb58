package sim

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
)

// TestPMIBytesAtScale measures the bytes that agents send for PMI if each of n ranks puts 400 bytes and gets the values
// of log2 n ranks. With the build tag soak there are 65,536 ranks on 4,096 nodes. The policy eager, which would send
// all values down each edge of the tree, must then cost more than 80 times as many bytes.
func TestPMIBytesAtScale(t *testing.T) {
	t.Parallel()
	nodes, ppn := scale.clientNodes, 16
	size := nodes * ppn
	x := pmiClients(t, plan(nodes, ppn, "kary:8"), learning, doubling(size))
	x.run()
	require.Equal(t, size*bits.Len(uint(size-1)), x.taken)
	require.Equal(t, 2*nodes, x.Sent[rankwire.KindCollect])
	require.Equal(t, 2*nodes, x.Sent[rankwire.KindRelease])
	all, root := x.bytes()
	fences := x.Bytes[rankwire.KindCollect] + x.Bytes[rankwire.KindRelease]
	eager := uint64(nodes * size * valueSize)
	t.Logf("%d ranks on %d nodes put %d bytes each: %.1f MB on all edges, at most %.4f of policy eager, and %.2f MB "+
		"on the root's edges; a fence takes %.0f bytes on each edge", size, nodes, valueSize, float64(all)/1e6,
		float64(all)/float64(eager), float64(root)/1e6, float64(fences)/float64(nodes)/2)
	require.Less(t, fences, uint64(128*nodes), "the two fences must not carry the values")
	if scale.whole() { // the values of few ranks cost no more than log2 n look-ups
		require.Zero(t, x.Sent[wire.KindBulkFetch],
			"if a rank gets log2 n values only, the policy auto must not send all values")
		require.Less(t, 80*all, eager)
		require.Less(t, root, uint64(8*size*valueSize), "the policy eager would send all values to the root's children")
	}
}
