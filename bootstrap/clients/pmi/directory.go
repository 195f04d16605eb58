package pmi

import (
	"ibrun/internal/job"
)

// directory records for each key the rank that put its newest value, and the number of the fence that listed the value.
// The zero value is empty.
type directory struct {
	sets  map[shape][]job.SlotRun // by pattern of the key: ranks that put such keys; Number is their newest fence
	whole map[string]place
}

// place identifies the newest value of a key by the rank that put it and the number of the fence that listed it.
type place struct {
	slot  job.Slot
	fence uint32
}

// add records the keys that a fence has listed. The fence must be newer than those of earlier calls.
func (d *directory) add(l listing, fence uint32) {
	if d.sets == nil {
		d.sets, d.whole = map[shape][]job.SlotRun{}, map[string]place{}
	}
	for s, set := range l.sets {
		var runs []job.SlotRun
		for _, span := range set {
			runs = append(runs, job.SlotRun{First: span.first, End: span.end, Number: fence})
		}
		d.sets[s] = job.UpdateRuns(d.sets[s], runs)
	}
	for key, slot := range l.whole {
		d.whole[key] = place{slot, fence}
	}
}

// find returns where the newest value of a key is. slotOf turns a rank into its
// slot, if there is such a rank.
func (d *directory) find(key string, slotOf func(job.Rank) (slot job.Slot, ok bool)) (at place, listed bool) {
	at, listed = d.whole[key]
	if len(d.sets) == 0 {
		return at, listed
	}
	numbers(key, func(s shape, rank job.Rank) bool {
		if slot, ok := slotOf(rank); ok {
			if fence, found := job.FindRun(d.sets[s], slot); found && (!listed || fence > at.fence) {
				at, listed = place{slot, fence}, true
			}
		}
		return false
	})
	return at, listed
}
