package job

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// nodesOf is the node of each rank.
func nodesOf(l Layout) []NodeIndex {
	nodes := make([]NodeIndex, l.Ranks())
	for slot := range Slot(l.Ranks()) {
		nodes[l.Rank(slot)] = l.NodeOf(slot)
	}
	return nodes
}

// A layout in any order gives each rank its node, and each node's ranks its slots in their order.
func TestOrdered(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 25))
	inOrder := 0
	for range 3000 {
		counts := make([]uint32, 1+rng.IntN(5))
		var nodes []NodeIndex
		for range len(counts) + rng.IntN(12) {
			nodes = append(nodes, NodeIndex(rng.IntN(len(counts))))
		}
		for i := range counts {
			nodes = append(nodes, NodeIndex(i)) // none goes without
		}
		if rng.IntN(3) == 0 {
			nodes = nodes[len(nodes)-len(counts):]
		}
		var shares []Share
		for _, n := range nodes {
			counts[n]++
		}
		for _, c := range counts {
			shares = append(shares, Share{1, c})
		}
		l := NewLayout(shares).By(nodes)
		require.Equal(t, nodes, nodesOf(l))
		next := map[NodeIndex]Slot{}
		for rank, node := range nodes {
			first, _ := l.SlotsOn(node)
			require.Equal(t, first+next[node], l.Slot(Rank(rank)), "%v", nodes)
			require.Equal(t, Rank(rank), l.Rank(l.Slot(Rank(rank))), "%v", nodes)
			next[node]++
		}
		if l.Plain() {
			inOrder++
			require.Empty(t, l.Order())
			continue
		}
		again, ok := NewLayout(shares).Ordered(l.Order())
		require.True(t, ok)
		require.Equal(t, l, again)

		gone := NodeIndex(rng.IntN(len(counts)))
		var rest []NodeIndex
		for _, n := range nodes {
			switch {
			case n < gone:
				rest = append(rest, n)
			case n > gone:
				rest = append(rest, n-1)
			}
		}
		if len(rest) > 0 {
			require.Equal(t, rest, nodesOf(l.Without(gone, 1)), "%v without %d", nodes, gone)
		}
	}
	require.Positive(t, inOrder)
}

func TestOrderedRefused(t *testing.T) {
	l := NewLayout([]Share{{2, 2}, {1, 1}}) // nodes 0, 1 with two ranks, 2 with one
	_, ok := l.Ordered([]Stretch{{1, 1, 2}, {0, 1, 2}, {2, 1, 1}})
	require.True(t, ok)
	for name, order := range map[string][]Stretch{
		"nothing":            nil,
		"in order":           {{0, 2, 2}, {2, 1, 1}},
		"two that are one":   {{1, 1, 1}, {2, 1, 1}, {0, 1, 2}, {1, 1, 1}},
		"a node cut in two":  {{1, 1, 1}, {1, 1, 1}, {0, 1, 2}, {2, 1, 1}},
		"too few":            {{1, 1, 2}, {0, 1, 2}},
		"too many":           {{1, 1, 2}, {0, 1, 2}, {2, 1, 2}},
		"another node's":     {{1, 1, 3}, {0, 1, 1}, {2, 1, 1}},
		"a node beyond":      {{1, 1, 2}, {0, 1, 2}, {3, 1, 1}},
		"nodes beyond":       {{1, 1 << 31, 2}, {0, 1, 2}},
		"wrapping":           {{1, 1<<32 - 1, 2}, {0, 1, 2}},
		"no ranks":           {{1, 1, 2}, {0, 1, 0}, {0, 1, 2}, {2, 1, 1}},
		"no nodes":           {{1, 1, 2}, {0, 0, 2}, {0, 1, 2}, {2, 1, 1}},
		"ranks out of bound": {{1, 1, 1<<32 - 1}, {0, 1, 2}},
	} {
		_, ok := l.Ordered(order)
		require.False(t, ok, name)
	}
}
