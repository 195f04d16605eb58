package pmi

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// spans draws a set of slots below 64, as spans and one by one.
func spans(rng *rand.Rand) (set []span, has [64]bool) {
	for range rng.IntN(6) {
		first := rng.Uint32N(64)
		end := first + 1 + rng.Uint32N(min(12, 64-first))
		set = union(set, []span{{job.Slot(first), job.Slot(end)}})
		for i := first; i < end; i++ {
			has[i] = true
		}
	}
	return set, has
}

// Sets are as if each slot were looked at alone; so is what later fences leave
// of earlier ones.
func TestSetsAgainstSlotsOneByOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	for range 2000 {
		a, inA := spans(rng)
		b, inB := spans(rng)
		both := union(a, b)
		for i := 1; i < len(both); i++ {
			require.Less(t, both[i-1].end, both[i].first, "apart and in order: %v", both)
		}
		l := listing{sets: map[shape][]span{{before: "k"}: both}}
		total := 0
		var d directory
		var fenceOf [64]uint32
		for fence := uint32(1); fence < 5; fence++ {
			set, has := spans(rng)
			d.add(listing{sets: map[shape][]span{{before: "k"}: set}}, fence)
			for slot, in := range has {
				if in {
					fenceOf[slot] = fence
				}
			}
		}
		for slot := range job.Slot(64) {
			in := slices.ContainsFunc(both, func(s span) bool { return s.first <= slot && slot < s.end })
			require.Equal(t, inA[slot] || inB[slot], in)
			if in {
				total++
			}
			at, listed := d.find("k"+strconv.Itoa(int(slot)), func(rank job.Rank) (job.Slot, bool) { return job.Slot(rank), true })
			require.Equal(t, fenceOf[slot] > 0, listed)
			if listed {
				require.Equal(t, place{slot, fenceOf[slot]}, at)
			}
		}
		require.Equal(t, total, l.keys())
	}
}

// What parses is encoded to the same listing; what does not hurts nobody.
func FuzzListing(f *testing.F) {
	var l listing
	for slot := range job.Slot(40) {
		if slot%7 > 0 {
			l.add(slot, job.Rank(slot), "bc-12")
			l.add(slot, job.Rank(slot), "bc-"+string([]byte{'0' + byte(slot%10)}))
		}
	}
	l.add(3, 3, "x03")
	f.Add(l.append(nil))
	f.Add([]byte{})
	f.Add([]byte{1, 1, 'a', 0, 0, 2, 3, 1, 0xff, 0xff, 0xff, 0x07, 1, 1, 'k', 7})
	f.Fuzz(func(t *testing.T, b []byte) {
		value := append([]byte{holdsListing}, b...)
		joined := Join(rankwire.NewParcels(rankwire.Parcel{To: rankwire.Everyone, Value: value}, rankwire.Parcel{From: 1, To: rankwire.Everyone, Value: value}))
		require.Equal(t, 1, joined.Len())
		h := NewServer(&job.Job{Layout: job.NewLayout([]job.Share{{Nodes: 2, Ranks: 2}})}, 0)
		h.passed(1, joined)
		h.passed(2, rankwire.NewParcels(rankwire.Parcel{Value: append([]byte{holdsValues}, b...)}))
		h.BulkFetched(1, frame.NewValues(b))
		l, ok := parseListing(b)
		if !ok {
			return
		}
		again, ok := parseListing(l.append(nil))
		require.True(t, ok)
		require.Equal(t, l.append(nil), again.append(nil))
		require.Equal(t, l.keys(), again.keys())
	})
}
