package sim

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/rankwire"
	"ibrun/bootstrap/wire"
)

// What PMI costs on the wire when 65,536 ranks on 4,096 nodes put 400 bytes
// each: if each rank reads log2 n values, and if every node reads all of them.
// The first is run. The second would be 100 GB of copies, and is reckoned in the
// way that TestReckonedBytes finds exact, where caches hold what passes them.
func TestPMIBytesAtScale(t *testing.T) {
	t.Parallel()
	nodes, ppn := scale.clientNodes, 16
	size := nodes * ppn
	cfg := plan(nodes, ppn, "kary:8")
	below, atRoot := subtrees(&cfg)
	x := pmi(t, cfg, learning, doubling(size))
	x.run()
	require.Equal(t, size*bits.Len(uint(size-1)), x.taken)
	require.Equal(t, 2*nodes, x.Sent[rankwire.KindCollect])
	require.Equal(t, 2*nodes, x.Sent[rankwire.KindRelease])
	if scale.whole() { // the values of few ranks cost no more than log2 n look-ups
		require.Zero(t, x.Sent[wire.KindBulkFetch],
			"log2 n values are no reason to send all: auto and lazy are the same")
	}
	few, fewRoot := x.bytes()
	lists := x.Bytes[rankwire.KindCollect] + x.Bytes[rankwire.KindRelease]
	listsRoot := x.RootBytes[rankwire.KindCollect] + x.RootBytes[rankwire.KindRelease]
	eager, eagerRoot := reckonEager(below, size, ppn), reckonEager(atRoot, size, ppn)
	lazy := func(edges map[uint32]int) uint64 { return uint64(len(edges)) * asking(0, size) }
	auto := func(edges map[uint32]int) uint64 { return reckonAsked(edges, size, ppn) + reckonBulk(edges, size, ppn) }
	line := func(pattern, policy string, all, root uint64) {
		t.Logf("%-24s %-14s %11.1f MB on all edges, %8.2f MB on the root's; %.4f of eager's", pattern, policy,
			float64(all)/1e6, float64(root)/1e6, float64(all)/float64(eager))
	}
	t.Logf("%d ranks on %d nodes put %d bytes each; a fence without values is %.0f bytes on an edge", size, nodes,
		valueSize, float64(lists)/float64(nodes)/2)
	line("log2 n gets per rank:", "eager", eager, eagerRoot)
	line("", "lazy and auto", few, fewRoot)
	line("each node reads all:", "eager", eager, eagerRoot)
	line("", "lazy", lists+lazy(below), listsRoot+lazy(atRoot))
	line("", "auto, at most", lists+auto(below), listsRoot+auto(atRoot))
	require.Less(t, lists, uint64(128*nodes), "a fence is as short for many ranks as for few")
	require.Less(t, 5*(lists+lazy(below)), 6*eager)
	require.Less(t, 4*(lists+auto(below)), 5*eager)
	if scale.whole() {
		require.Less(t, 80*few, eager)
		require.Less(t, fewRoot, eagerRoot)
	}
}
