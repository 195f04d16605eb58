package pmi

import (
	"cmp"
	"slices"
	"sort"

	"ibrun/internal/job"
)

// directory is who has put which key, and in which fence, as all fences so far
// have listed it. The zero value is empty.
type directory struct {
	sets  map[shape][]bulkStretch
	whole map[string]place
}

// place is where the newest value of a key is.
type place struct {
	slot  job.Slot
	fence uint32
}

// bulkStretch is a span of slots whose newest values for the keys of one shape were put in the same fence.
type bulkStretch struct {
	span
	fence uint32
}

// add takes in a fence's listing, newer than all before it.
func (d *directory) add(l listing, fence uint32) {
	if d.sets == nil {
		d.sets, d.whole = map[shape][]bulkStretch{}, map[string]place{}
	}
	for s, set := range l.sets {
		d.sets[s] = overlay(d.sets[s], set, fence)
	}
	for key, slot := range l.whole {
		d.whole[key] = place{slot, fence}
	}
}

// overlay puts a newer fence's slots over older ones.
func overlay(old []bulkStretch, fresh []span, fence uint32) []bulkStretch {
	out := make([]bulkStretch, 0, len(old)+2*len(fresh))
	next := 0
	for _, o := range old {
		at := o.first
		for next < len(fresh) && fresh[next].end <= at {
			next++
		}
		for i := next; i < len(fresh) && fresh[i].first < o.end; i++ {
			if fresh[i].first > at {
				out = append(out, bulkStretch{span{at, fresh[i].first}, o.fence})
			}
			at = max(at, fresh[i].end)
		}
		if at < o.end {
			out = append(out, bulkStretch{span{at, o.end}, o.fence})
		}
	}
	for _, f := range fresh {
		out = append(out, bulkStretch{f, fence})
	}
	slices.SortFunc(out, func(a, b bulkStretch) int { return cmp.Compare(a.first, b.first) })
	return out
}

// find returns where the newest value of a key is. slotOf turns a rank into its
// slot, if there is such a rank.
func (d *directory) find(key string, slotOf func(job.Rank) (slot job.Slot, ok bool)) (at place, listed bool) {
	at, listed = d.whole[key]
	if len(d.sets) == 0 {
		return at, listed
	}
	numbers(key, func(s shape, rank job.Rank) bool {
		slot, ok := slotOf(rank)
		set := d.sets[s]
		if !ok || len(set) == 0 {
			return false
		}
		i := sort.Search(len(set), func(i int) bool { return set[i].end > slot })
		if i < len(set) && set[i].first <= slot && (!listed || set[i].fence > at.fence) {
			at, listed = place{slot, set[i].fence}, true
		}
		return false
	})
	return at, listed
}
