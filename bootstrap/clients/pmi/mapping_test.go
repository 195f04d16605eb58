package pmi

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
)

// expand reads a mapping as MPICH does: out of blocks, it begins again with the
// first whose first node is 0.
func expand(t testing.TB, text string, ranks int) (nodes []job.NodeIndex) {
	inner, ok := strings.CutPrefix(text, "(vector,(")
	require.True(t, ok, text)
	inner, ok = strings.CutSuffix(inner, "))")
	require.True(t, ok, text)
	parts := strings.Split(inner, "),(")
	for again := false; ; again = true {
		began := !again
		for _, part := range parts {
			var first, count, each uint32
			n, err := fmt.Sscanf(part, "%d,%d,%d", &first, &count, &each)
			require.NoError(t, err, text)
			require.Equal(t, 3, n)
			require.NotZero(t, count*each)
			began = began || first == 0
			for node := first; began && node < first+count; node++ {
				for range each {
					if nodes = append(nodes, job.NodeIndex(node)); len(nodes) == ranks {
						return nodes
					}
				}
			}
		}
	}
}

func nodesOf(l job.Layout) (nodes []job.NodeIndex) {
	nodes = make([]job.NodeIndex, l.Ranks())
	for slot := range job.Slot(l.Ranks()) {
		nodes[l.Rank(slot)] = l.NodeOf(slot)
	}
	return nodes
}

// fewest is the least number of blocks that say the same without repetition,
// and without taking a node's ranks that follow each other apart.
func fewest(nodes []job.NodeIndex) int {
	n := len(nodes)
	best := make([]int, n+1)
	for i := n - 1; i >= 0; i-- {
		best[i] = n + 1
		for each := 1; i+each <= n; each++ {
			for count := 0; i+(count+1)*each <= n; count++ {
				end := i + (count+1)*each
				same := end == n || nodes[end] != nodes[end-1]
				for _, node := range nodes[i+count*each : end] {
					same = same && node == nodes[i]+job.NodeIndex(count)
				}
				if !same {
					break
				}
				best[i] = min(best[i], 1+best[end])
			}
		}
	}
	return best[0]
}

func TestMapping(t *testing.T) {
	for _, c := range []struct {
		shares []job.Share
		plane  uint32
		want   string
	}{
		{nil, 0, ""},
		{[]job.Share{{Nodes: 1, Ranks: 1}}, 0, "(vector,(0,1,1))"},
		{[]job.Share{{Nodes: 1, Ranks: 4}}, 0, "(vector,(0,1,4))"},
		{[]job.Share{{Nodes: 1, Ranks: 4}}, 1, "(vector,(0,1,4))"},
		{[]job.Share{{Nodes: 4, Ranks: 16}}, 0, "(vector,(0,4,16))"},
		{[]job.Share{{Nodes: 4, Ranks: 16}}, 1, "(vector,(0,4,1))"},
		{[]job.Share{{Nodes: 4, Ranks: 16}}, 4, "(vector,(0,4,4))"},
		{[]job.Share{{Nodes: 4, Ranks: 16}, {Nodes: 1, Ranks: 3}}, 0, "(vector,(0,4,16),(4,1,3))"},
		{[]job.Share{{Nodes: 1, Ranks: 2}, {Nodes: 2, Ranks: 1}}, 1, "(vector,(0,3,1))"}, // 0 1 2 0
		{[]job.Share{{Nodes: 1, Ranks: 1}, {Nodes: 2, Ranks: 2}}, 1, "(vector,(0,3,1),(1,2,1))"},
		{[]job.Share{{Nodes: 2, Ranks: 2}, {Nodes: 1, Ranks: 1}}, 1, "(vector,(0,3,1))"}, // 0 1 2 0 1
		{[]job.Share{{Nodes: 16384, Ranks: 64}}, 0, "(vector,(0,16384,64))"},
		{[]job.Share{{Nodes: 16384, Ranks: 64}}, 1, "(vector,(0,16384,1))"},
		{[]job.Share{{Nodes: 2, Ranks: 128}, {Nodes: 62, Ranks: 127}}, 1, "(vector,(0,64,1))"},
	} {
		require.Equal(t, c.want, Mapping(job.NewLayout(c.shares).Dealt(c.plane)), "%v %d", c.shares, c.plane)
	}
}

func TestMappingSaysTheLayout(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	repeated := 0
	for range 20000 {
		var shares []job.Share
		for range 1 + rng.IntN(4) {
			shares = append(shares, job.Share{Nodes: 1 + rng.Uint32N(5), Ranks: 1 + rng.Uint32N(5)})
		}
		l := job.NewLayout(shares).Dealt(rng.Uint32N(4))
		text, nodes := Mapping(l), nodesOf(l)
		require.Equal(t, nodes, expand(t, text, len(nodes)), "%v %d: %s", shares, l.Plane(), text)
		if blocks := strings.Count(text, ",("); blocks < fewest(nodes) {
			repeated++
		} else {
			require.Equal(t, fewest(nodes), blocks, "%v %d: %s", shares, l.Plane(), text)
		}
	}
	require.Greater(t, repeated, 1000)
}
