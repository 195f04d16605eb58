package job

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Parts do what sets of nodes do, each with its own name and ranks.
func TestPartsAreSets(t *testing.T) {
	nodes := NewNodes(0, []Run{{Prefix: "a", Width: 2, Count: 20, Ranks: 3}, {Prefix: "b", Count: 1, Ranks: 1},
		{Prefix: "c", Width: 1, Count: 9, Ranks: 2}})
	all := Part{0, nodes}
	rand := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var parts Parts
		in := map[int]bool{}
		for range 12 {
			lo := rand.IntN(nodes.Len())
			hi := lo + 1 + rand.IntN(nodes.Len()-lo)
			switch rand.IntN(3) {
			case 0:
				parts = parts.Without(NodeIndex(lo), NodeIndex(hi))
				for i := lo; i < hi; i++ {
					delete(in, i)
				}
			case 1:
				if !in[lo] {
					parts, in[lo] = parts.Add(all.Slice(lo, lo+1)), true
				}
			case 2:
				from, to := NodeIndex(lo), NodeIndex(hi)
				require.Equal(t, parts, parts.Without(from, to).Add(parts.Within(from, to)...))
				first, rest := parts.Cut(lo)
				require.Equal(t, min(lo, len(in)), first.Len())
				require.Equal(t, parts, first.Add(rest...))
			}
			check(t, parts, in, nodes)
		}
	}
}

func check(t *testing.T, parts Parts, in map[int]bool, nodes Nodes) {
	require.Equal(t, len(in), parts.Len())
	end := -1
	for _, p := range parts {
		require.Greater(t, int(p.First), end, "parts that touch are one")
		end = int(p.End())
		for i := range p.Nodes.Len() {
			at := int(p.First) + i
			require.True(t, in[at])
			require.Equal(t, nodes.At(at), p.Nodes.At(i))
		}
	}
}
