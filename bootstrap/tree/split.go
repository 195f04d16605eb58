package tree

import (
	"math/bits"
	"slices"
)

// Split returns the sizes of the children's subtrees, in launch order, of an
// agent at the given level (the root is 0) whose own subtree has n agents,
// itself included. The sizes add up to n-1; none is zero. Auto must have been
// resolved before.
func (s Shape) Split(level, n int) []int {
	if n < 2 {
		return nil
	}
	switch s.Kind {
	case Chain:
		return []int{n - 1}
	case Kary:
		return splitKary(s.K, n)
	case Binomial:
		return splitBinomial(n)
	case TwoLevel:
		if level == 0 {
			return splitTwoLevel(n - 1)
		}
	case Greedy:
		return splitGreedy(s.Cost, n)
	}
	return slices.Repeat([]int{1}, n-1)
}

// splitKary splits the complete k-ary tree of n nodes that is filled breadth
// first: all levels but the last are full, and the last is filled from the left.
func splitKary(k, n int) []int {
	if n-1 <= k {
		return slices.Repeat([]int{1}, n-1)
	}
	if k == 1 {
		return []int{n - 1}
	}
	// full is the size of a child's subtree without its last level, width
	// the number of places a child has on that level.
	full, width, rest := 0, 1, n-1
	for rest > k*width {
		rest -= k * width
		full += width
		width *= k
	}
	sizes := make([]int, k)
	for i := range sizes {
		last := min(rest, width)
		sizes[i], rest = full+last, rest-last
	}
	return sizes
}

// splitBinomial halves what is left at each start, so that after each step
// twice as many agents are up.
func splitBinomial(n int) []int {
	sizes := make([]int, 0, bits.Len(uint(n)))
	for n > 1 {
		half := n / 2
		sizes = append(sizes, half)
		n -= half
	}
	return sizes
}

// splitTwoLevel groups n agents below the root into about the square root of n
// groups whose sizes differ by one at most.
func splitTwoLevel(n int) []int {
	groups := 1
	for groups*groups < n {
		groups++
	}
	sizes := make([]int, groups)
	for i := range sizes {
		sizes[i] = n / groups
		if i < n%groups {
			sizes[i]++
		}
	}
	return sizes
}

// splitGreedy gives child i as many agents as can be up in the time that is
// left when it is up itself. What the tree has too many places for is left out
// where it is cheapest to leave out: at the last starts.
func splitGreedy(c Cost, n int) []int {
	horizon := c.Optimum(n)
	var sizes []int
	rest := n - 1
	for i := 0; rest > 0; i++ {
		size := min(c.Reach(horizon-c.REM-c.Start(i), rest), rest)
		sizes = append(sizes, size)
		rest -= size
	}
	return sizes
}
