package pmi

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"

	"ibrun/bootstrap/wire/frame"
	"ibrun/internal/job"
)

// Keys name the rank that puts them more often than not: "bc-12", "UCX-12-0". A
// listing says who has put which keys in one fence: such a key is a shape with
// a hole for the rank's number, and the ranks are a set; so that the listing of
// a million ranks is as long as that of one. Other keys are listed whole.

// shape is a key without the number of its rank.
type shape struct {
	before, after string
	width         uint8 // of a number with zeros before it; 0: without
}

func (s shape) compare(o shape) int {
	return cmp.Or(cmp.Compare(s.before, o.before), cmp.Compare(s.after, o.after), cmp.Compare(s.width, o.width))
}

// span is the slots [first, end).
type span struct{ first, end job.Slot }

// listing is of one fence. The zero value is empty.
type listing struct {
	sets  map[shape][]span // in order, apart
	whole map[string]job.Slot
}

// numbers calls f with each number in a key that could be a rank's, until f says stop.
func numbers(key string, f func(s shape, n job.Rank) (stop bool)) {
	digit := func(i int) bool { return i < len(key) && key[i]-'0' < 10 }
	for i := 0; i < len(key); i++ {
		if !digit(i) {
			continue
		}
		j := i
		for digit(j) {
			j++
		}
		s := shape{before: key[:i], after: key[j:]}
		if key[i] == '0' && j > i+1 {
			s.width = uint8(min(j-i, 255))
		}
		if n, err := strconv.ParseUint(key[i:j], 10, 32); err == nil && n < job.MaxRanks && f(s, job.Rank(n)) {
			return
		}
		i = j
	}
}

// add notes that a rank has put a key.
func (l *listing) add(slot job.Slot, rank job.Rank, key string) {
	found := false
	numbers(key, func(s shape, n job.Rank) bool {
		if n == rank {
			found = true
			l.unite(s, []span{{slot, slot + 1}})
		}
		return found
	})
	if found {
		return
	}
	if l.whole == nil {
		l.whole = map[string]job.Slot{}
	}
	l.whole[key] = slot
}

func (l *listing) unite(s shape, set []span) {
	if l.sets == nil {
		l.sets = map[shape][]span{}
	}
	l.sets[s] = union(l.sets[s], set)
}

// join adds another listing of the same fence.
func (l *listing) join(o listing) {
	for s, set := range o.sets {
		l.unite(s, set)
	}
	if l.whole == nil {
		l.whole = o.whole
		return
	}
	maps.Copy(l.whole, o.whole)
}

// keys is how many the listing has.
func (l *listing) keys() (n int) {
	for _, set := range l.sets {
		for _, s := range set {
			n += int(s.end - s.first)
		}
	}
	return n + len(l.whole)
}

// union of two sets, each in order.
func union(a, b []span) []span {
	if len(a) == 0 {
		return b
	}
	out := make([]span, 0, len(a)+len(b))
	for len(a)+len(b) > 0 {
		if len(b) == 0 || len(a) > 0 && a[0].first <= b[0].first {
			out, a = extend(out, a[0]), a[1:]
		} else {
			out, b = extend(out, b[0]), b[1:]
		}
	}
	return out
}

// extend adds a span that begins no earlier than those before it.
func extend(set []span, s span) []span {
	if last := len(set) - 1; last >= 0 && s.first <= set[last].end {
		set[last].end = max(set[last].end, s.end)
		return set
	}
	return append(set, s)
}

// append encodes a listing; docs/dev/protocol.md, "PMI".
func (l *listing) append(to []byte) []byte {
	w := frame.Encoder(to)
	w.Uint(uint64(len(l.sets)))
	for _, s := range slices.SortedFunc(maps.Keys(l.sets), shape.compare) {
		w.Text(s.before)
		w.Text(s.after)
		w.Byte(s.width)
		w.Uint(uint64(len(l.sets[s])))
		at := job.Slot(0)
		for _, s := range l.sets[s] {
			w.U32(uint32(s.first - at))
			w.U32(uint32(s.end - s.first))
			at = s.end
		}
	}
	for _, key := range slices.Sorted(maps.Keys(l.whole)) {
		w.Text(key)
		w.U32(uint32(l.whole[key]))
	}
	return w
}

// parseListing is the reverse; ok is false, and the listing worth nothing, if the
// bytes are none.
func parseListing(b []byte) (l listing, ok bool) {
	r := frame.NewDecoder(b, math.MaxInt)
	for n := r.Uint(job.MaxRanks); n > 0 && r.Err() == nil; n-- {
		s := shape{before: r.Text(), after: r.Text(), width: r.Byte()}
		var set []span
		at := uint64(0)
		for k := r.Uint(job.MaxRanks); k > 0 && r.Err() == nil; k-- {
			first := at + r.Uint(job.MaxRanks-at)
			at = first + r.Uint(job.MaxRanks-first)
			r.Must(at > first)
			set = extend(set, span{job.Slot(first), job.Slot(at)})
		}
		if r.Must(len(set) > 0); r.Err() == nil {
			l.unite(s, set)
		}
	}
	for r.Err() == nil && len(r.Rest()) > 0 {
		if l.whole == nil {
			l.whole = map[string]job.Slot{}
		}
		l.whole[r.Text()] = job.Slot(r.Uint(job.MaxRanks))
	}
	return l, r.Err() == nil
}
