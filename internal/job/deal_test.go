package job

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// dealByHand deals ranks one after the other.
func dealByHand(counts []uint32, plane uint32) (slotOf []Slot) {
	first, given := make([]uint32, len(counts)), make([]uint32, len(counts))
	total := uint32(0)
	for i, c := range counts {
		first[i] = total
		total += c
	}
	for uint32(len(slotOf)) < total {
		for i, c := range counts {
			for k := uint32(0); k < plane && given[i] < c; k++ {
				slotOf = append(slotOf, Slot(first[i]+given[i]))
				given[i]++
			}
		}
	}
	return slotOf
}

func TestDealt(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for range 2000 {
		var shares []Share
		var counts []uint32
		for range 1 + rng.IntN(4) {
			s := Share{Nodes: 1 + rng.Uint32N(4), Ranks: 1 + rng.Uint32N(9)}
			shares = append(shares, s)
			for range s.Nodes {
				counts = append(counts, s.Ranks)
			}
		}
		plane := 1 + rng.Uint32N(5)
		l := NewLayout(shares).Dealt(plane)
		for rank, slot := range dealByHand(counts, plane) {
			require.Equal(t, slot, l.Slot(Rank(rank)), "%v by %d", counts, plane)
			require.Equal(t, Rank(rank), l.Rank(slot), "%v by %d", counts, plane)
		}
	}
	l := NewLayout([]Share{{2, 4}})
	require.Equal(t, []uint32{5, 5}, []uint32{uint32(l.Rank(5)), uint32(l.Slot(5))}, "not dealt")
	require.Equal(t, Rank(7), l.Dealt(1<<31).Rank(7), "a plane for all")
}

func TestPlaceDeals(t *testing.T) {
	for _, c := range []struct {
		slots  []uint32
		ranks  uint64
		per    uint64
		plane  uint64
		counts []uint32
	}{
		{[]uint32{4, 4}, 5, 0, 1, []uint32{3, 2}},
		{[]uint32{4, 4}, 6, 0, 4, []uint32{4, 2}},
		{[]uint32{4, 4}, 6, 0, 2, []uint32{4, 2}},
		{[]uint32{4, 1, 4}, 7, 0, 1, []uint32{3, 1, 3}},
		{[]uint32{4, 1, 4}, 9, 0, 1, []uint32{4, 1, 4}},
		{[]uint32{0, 0}, 32, 0, 1, []uint32{16, 16}},
		{[]uint32{0, 0, 0}, 2, 0, 1, []uint32{1, 1}},
		{[]uint32{8, 8, 8}, 7, 3, 2, []uint32{3, 2, 2}},
		{[]uint32{2, 2}, 9, 0, 1, []uint32{5, 4}}, // more than there are: shares
	} {
		var runs []Run
		for i, s := range c.slots {
			runs = append(runs, Run{Prefix: string(rune('a' + i)), Count: 1, Slots: s})
		}
		placed, _, err := Place(NewNodes(0, runs), Want{Ranks: c.ranks, PerNode: c.per, Plane: c.plane})
		require.NoError(t, err)
		var counts []uint32
		for i := range placed.Len() {
			counts = append(counts, placed.At(i).Ranks)
		}
		require.Equal(t, c.counts, counts, "%v", c)
	}
}

func TestPlaceByWeight(t *testing.T) {
	alloc := NewNodes(0, []Run{{Prefix: "n", Width: 1, Lo: 1, Count: 3, Slots: 4}})
	for _, c := range []struct {
		ranks  uint64
		counts map[string]uint32
	}{
		{12, map[string]uint32{"n1": 8, "n2": 4}},
		{13, map[string]uint32{"n1": 9, "n2": 4}},
		{0, map[string]uint32{"n1": 4, "n2": 2}}, // six cores' worth
		{1, map[string]uint32{"n1": 1}},
	} {
		placed, over, err := Place(alloc, Want{Ranks: c.ranks, Weight: map[string]uint32{"n1": 400, "n2": 200,
			"n3": 0}})
		require.NoError(t, err)
		require.False(t, over)
		counts := map[string]uint32{}
		for i := range placed.Len() {
			counts[placed.At(i).Host] = placed.At(i).Ranks
		}
		require.Equal(t, c.counts, counts)
	}
}
