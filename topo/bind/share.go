package bind

import (
	"math"
	"slices"
)

// mostGroups bounds the work for machines that are made up: where more groups
// than this are to be divided among fewer ranks, their borders do not count.
const mostGroups = 512

// shares divides pieces among n ranks, 1 <= n <= len(pieces): contiguous, all
// of them, and along the borders of the tree. If there are preferred cores for each
// rank, each has as many pieces, even if borders are crossed for it; otherwise
// preferred does not count.
func shares(pieces []piece, n, preferred int) [][]piece {
	cores := 0
	for _, p := range pieces {
		if p.thread == 0 {
			cores++
		}
	}
	if preferred > cores/n {
		preferred = 1
	}
	return divide(pieces, n, max(preferred, 1), 0)
}

// divide is shares for pieces whose paths agree above a depth.
func divide(pieces []piece, n, preferred, depth int) [][]piece {
	if n == 1 {
		return [][]piece{pieces}
	}
	if depth == depths {
		return cut(pieces, n)
	}
	groups := split(pieces, depth)
	switch k := len(groups); {
	case k == 1:
		return divide(pieces, n, preferred, depth+1)
	case k == len(pieces):
		return cut(pieces, n) // joining them one by one comes to the same
	case n < k:
		if k > mostGroups {
			return cut(pieces, n)
		}
		all := join(groups, n)
		for _, share := range all {
			if len(share) < preferred {
				return cut(pieces, n)
			}
		}
		return all
	}
	counts, ok := apportion(groups, n, preferred)
	if !ok {
		return cut(pieces, n)
	}
	var all [][]piece
	for i, g := range groups {
		all = append(all, divide(g, counts[i], preferred, depth+1)...)
	}
	return all
}

// split makes groups of neighbours whose paths agree down to a depth.
func split(pieces []piece, depth int) (groups [][]piece) {
	from := 0
	for i := 1; i <= len(pieces); i++ {
		if i == len(pieces) || !slices.Equal(pieces[from].path[:depth+1], pieces[i].path[:depth+1]) {
			groups = append(groups, pieces[from:i])
			from = i
		}
	}
	return groups
}

// cut divides pieces evenly, the larger shares first.
func cut(pieces []piece, n int) (all [][]piece) {
	for left := n; left > 0; left-- {
		size := (len(pieces) + left - 1) / left
		all = append(all, pieces[:size])
		pieces = pieces[size:]
	}
	return all
}

// apportion says how many of n ranks each group gets, n >= len(groups): in
// proportion to its size, at least one, and the rest to the largest remainders,
// of equal ones to the first. It fails if a rank would have fewer than preferred
// pieces whatever the remainders do.
func apportion(groups [][]piece, n, preferred int) (counts []int, ok bool) {
	size := 0
	for _, g := range groups {
		size += len(g)
	}
	counts = make([]int, len(groups))
	// A group whose part is below one has one; the others share what is left,
	// by which another may fall below one.
	ranks := n
	for again := true; again; {
		again = false
		for i, g := range groups {
			if counts[i] == 0 && ranks*len(g) < size {
				counts[i] = 1
				ranks--
				size -= len(g)
				again = true
			}
		}
	}
	rest := make([]int, len(groups)) // in size-ths of a rank
	left := n
	for i, g := range groups {
		if counts[i] == 0 {
			counts[i] = ranks * len(g) / size
			rest[i] = ranks * len(g) % size
		}
		if counts[i]*preferred > len(g) {
			return nil, false
		}
		left -= counts[i]
	}
	for ; left > 0; left-- {
		best := -1
		for i, g := range groups {
			if (counts[i]+1)*preferred <= len(g) && (best < 0 || rest[i] > rest[best]) {
				best = i
			}
		}
		if best < 0 {
			return nil, false
		}
		counts[best]++
		rest[best] -= size
	}
	return counts, true
}

// join divides groups into n shares of adjacent groups, where n < len(groups). It chooses the division with the least
// sum of the squares of the sizes of the shares. If several are equal, it chooses the one whose
// first shares are largest.
func join(groups [][]piece, n int) (all [][]piece) {
	// best[left][i] describes the best division of groups[i:] into left shares.
	type division struct {
		sum int // least sum of the squares of the sizes of the shares
		end int // index of the first group after the first share
	}
	const impossible = math.MaxInt / 2
	k := len(groups)
	best := make([][]division, n+1)
	for left := range best {
		best[left] = slices.Repeat([]division{{sum: impossible}}, k+1)
	}
	best[0][k].sum = 0
	for left := 1; left <= n; left++ {
		for i := k - left; i >= 0; i-- {
			least := &best[left][i]
			size := 0
			for end := i + 1; end <= k-left+1 && size*size < least.sum; end++ {
				size += len(groups[end-1])
				if sum := size*size + best[left-1][end].sum; sum <= least.sum {
					*least = division{sum, end}
				}
			}
		}
	}
	from := 0
	for left := n; left > 0; left-- {
		end := best[left][from].end
		all = append(all, slices.Concat(groups[from:end]...))
		from = end
	}
	return all
}

// runs gives n ranks size pieces each, n*size <= len(pieces): one after the
// other, inside the smallest kind of group in which all of them fit whole.
func runs(pieces []piece, n, size int) (all [][]piece) {
	for depth := depths - 1; depth >= 0; depth-- {
		all = all[:0]
		for _, g := range split(pieces, depth) {
			for ; len(g) >= size && len(all) < n; g = g[size:] {
				all = append(all, g[:size])
			}
		}
		if len(all) == n {
			return all
		}
	}
	all = all[:0]
	for ; len(all) < n; pieces = pieces[size:] {
		all = append(all, pieces[:size])
	}
	return all
}
