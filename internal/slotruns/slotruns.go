// Package slotruns keeps a number for each of many slots of a job, such as the fence in which a rank has put its newest
// value. Neighbouring slots with the same number are one run.
package slotruns

import (
	"cmp"
	"slices"

	"ibrun/internal/job"
)

// Run is the slots [First, End), which have the same number.
type Run struct {
	First, End job.Slot
	Number     uint32
}

// Join sorts runs, which must not overlap, and merges those that touch and have the same number.
func Join(runs []Run) (joined []Run) {
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Compare(a.First, b.First) })
	for _, r := range runs {
		if last := len(joined) - 1; last >= 0 && joined[last].End == r.First && joined[last].Number == r.Number {
			joined[last].End = r.End
			continue
		}
		joined = append(joined, r)
	}
	return joined
}

// Update returns old with the numbers in fresh, which replace older ones. Both lists are in order.
func Update(old, fresh []Run) []Run {
	all := slices.Clone(fresh)
	next := 0
	for _, r := range old {
		for next < len(fresh) && fresh[next].End <= r.First {
			next++
		}
		for i := next; i < len(fresh) && fresh[i].First < r.End; i++ {
			if fresh[i].First > r.First {
				all = append(all, Run{r.First, fresh[i].First, r.Number})
			}
			r.First = max(r.First, fresh[i].End)
		}
		if r.First < r.End {
			all = append(all, r)
		}
	}
	return Join(all)
}

// Find returns the number of a slot. It returns ok == false if no run has the slot.
func Find(runs []Run, slot job.Slot) (number uint32, ok bool) {
	i, _ := slices.BinarySearchFunc(runs, slot+1, func(r Run, end job.Slot) int { return cmp.Compare(r.End, end) })
	if i == len(runs) || runs[i].First > slot {
		return 0, false
	}
	return runs[i].Number, true
}
