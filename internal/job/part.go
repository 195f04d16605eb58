package job

import (
	"slices"
	"sort"
)

// Part is nodes that follow each other in a job.
type Part struct {
	First NodeIndex // index of the first
	Nodes Nodes     // with their ranks; at least one
}

// End is the index after the last node.
func (p Part) End() NodeIndex { return p.First + NodeIndex(p.Nodes.Len()) }

// Slice is nodes [lo, hi) of the part.
func (p Part) Slice(lo, hi int) Part { return Part{p.First + NodeIndex(lo), p.Nodes.Slice(lo, hi)} }

// Fits reports whether a job of such a layout has these nodes, with these ranks.
func (p Part) Fits(l Layout) bool {
	at := p.First
	for r := range p.Nodes.All() {
		last := at + NodeIndex(r.Count) - 1
		if last < at || uint32(last) >= l.Nodes() || r.Ranks == 0 || l.shareOf(at) != l.shareOf(last) ||
			l.share(l.shareOf(at)).Ranks != r.Ranks {
			return false
		}
		at = last + 1
	}
	if p.Nodes.Len() == 0 {
		return false
	}
	first, _ := l.SlotsOn(p.First)
	return first == p.Nodes.Base()
}

// Parts are nodes of a job in order of their index, each once, and those that
// touch are one part. No method changes what it is called on.
type Parts []Part

// Len is the number of nodes.
func (l Parts) Len() (n int) {
	for _, p := range l {
		n += p.Nodes.Len()
	}
	return n
}

// Has reports whether a node is one of them.
func (l Parts) Has(node NodeIndex) bool {
	i := sort.Search(len(l), func(i int) bool { return l[i].First > node }) - 1
	return i >= 0 && node < l[i].End()
}

// Add takes in nodes that are not there yet.
func (l Parts) Add(more ...Part) Parts {
	all := slices.Clone(l)
	for _, p := range more {
		i := sort.Search(len(all), func(i int) bool { return all[i].First > p.First })
		all = slices.Insert(all, i, p)
	}
	var out Parts
	for _, p := range all {
		if last := len(out) - 1; last >= 0 && out[last].End() == p.First {
			out[last].Nodes = out[last].Nodes.Join(p.Nodes)
			continue
		}
		out = append(out, p)
	}
	return out
}

// Within is what of the nodes is in [first, end).
func (l Parts) Within(first, end NodeIndex) Parts {
	return l.Without(0, first).Without(end, MaxNodes)
}

// Without is what is left without nodes [first, end).
func (l Parts) Without(first, end NodeIndex) (rest Parts) {
	for _, p := range l {
		if hi := min(first, p.End()); hi > p.First {
			rest = append(rest, p.Slice(0, int(hi-p.First)))
		}
		if lo := max(end, p.First); lo < p.End() {
			rest = append(rest, p.Slice(int(lo-p.First), p.Nodes.Len()))
		}
	}
	return rest
}

// Cut divides the nodes into the first n and the rest.
func (l Parts) Cut(n int) (first, rest Parts) {
	for _, p := range l {
		k := min(n, p.Nodes.Len())
		n -= k
		if k > 0 {
			first = append(first, p.Slice(0, k))
		}
		if k < p.Nodes.Len() {
			rest = append(rest, p.Slice(k, p.Nodes.Len()))
		}
	}
	return first, rest
}
