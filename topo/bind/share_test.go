package bind

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
	"ibrun/topo/hwloctest"
)

// sized makes groups of some sizes.
func sized(sizes ...int) (groups [][]piece) {
	for _, n := range sizes {
		groups = append(groups, make([]piece, n))
	}
	return groups
}

// sums are the sizes of the shares that runs of groups make.
func sums(sizes, lengths []int) (shares []int) {
	for _, n := range lengths {
		sum := 0
		for _, size := range sizes[:n] {
			sum += size
		}
		shares, sizes = append(shares, sum), sizes[n:]
	}
	return shares
}

// TestJoin compares with all ways to divide some groups.
func TestJoin(t *testing.T) {
	seeds(t, machines/3, func(t *testing.T, r *rand.Rand) {
		sizes := make([]int, 2+r.IntN(7))
		for i := range sizes {
			sizes[i] = 1 + r.IntN(6)
		}
		n := 1 + r.IntN(len(sizes)-1)
		var best []int
		least := -1
		var try func(lengths []int, left int)
		try = func(lengths []int, left int) {
			if len(lengths) == n {
				if left > 0 {
					return
				}
				shares, squares := sums(sizes, lengths), 0
				for _, s := range shares {
					squares += s * s
				}
				if least < 0 || squares < least || squares == least && slices.Compare(shares, best) > 0 {
					best, least = shares, squares
				}
				return
			}
			for l := 1; l <= left; l++ {
				try(append(slices.Clone(lengths), l), left-l)
			}
		}
		try(nil, len(sizes))
		var got []int
		for _, share := range join(sized(sizes...), n) {
			got = append(got, len(share))
		}
		require.Equal(t, best, got, "%v among %d", sizes, n)
	})
}

func TestApportion(t *testing.T) {
	for _, c := range []struct {
		sizes        []int
		n, preferred int
		counts       []int
	}{
		{[]int{4, 4, 4, 4}, 7, 1, []int{2, 2, 2, 1}},
		{[]int{4, 12}, 4, 1, []int{1, 3}},
		{[]int{1, 1, 1, 1, 12}, 5, 1, []int{1, 1, 1, 1, 1}},
		{[]int{1, 1, 6, 9}, 6, 1, []int{1, 1, 2, 2}},
		{[]int{2, 1, 2, 2}, 5, 1, []int{2, 1, 1, 1}},
		{[]int{3, 5}, 8, 1, []int{3, 5}},
		{[]int{7, 7, 7, 27}, 9, 1, []int{2, 1, 1, 5}},
		{[]int{7, 7, 7, 27}, 9, 4, []int{1, 1, 1, 6}}, // two of the first would have fewer than 4
		{[]int{8, 8}, 5, 3, nil},
		{[]int{2, 14}, 3, 4, nil},
	} {
		counts, ok := apportion(sized(c.sizes...), c.n, c.preferred)
		require.Equal(t, c.counts, counts, "%d of %v", c.n, c.sizes)
		require.Equal(t, c.counts != nil, ok)
	}
}

// TestApportionIsFair: all ranks are dealt, nobody is without, and each group
// is within one of its part, unless small ones had to be given their first.
func TestApportionIsFair(t *testing.T) {
	seeds(t, machines, func(t *testing.T, r *rand.Rand) {
		sizes, total := make([]int, 1+r.IntN(8)), 0
		for i := range sizes {
			sizes[i] = 1 + r.IntN(12)
			total += sizes[i]
		}
		n := len(sizes) + r.IntN(total-len(sizes)+1)
		counts, ok := apportion(sized(sizes...), n, 1)
		require.True(t, ok)
		small, sum := false, 0
		for _, s := range sizes {
			small = small || n*s < total
		}
		for i, c := range counts {
			sum += c
			require.True(t, c >= 1 && c <= sizes[i], "%d ranks on %d", c, sizes[i])
			if !small {
				require.True(t, c*total > n*sizes[i]-total && c*total < n*sizes[i]+total, "%v of %d over %v", counts, n,
					sizes)
			}
		}
		require.Equal(t, n, sum)
	})
}

// TestManyGroups: a machine that somebody made up does not take long.
func TestManyGroups(t *testing.T) {
	m := hwloctest.Described(fmt.Sprintf("numa:%d core:%d", 3*mostGroups, 6*mostGroups))
	places, _, err := Places(m, job.Binding{}, 2*mostGroups, 0)
	require.NoError(t, err)
	require.Len(t, places, 2*mostGroups)
	require.Equal(t, "0-2", places[0].CPUs.String())
}
