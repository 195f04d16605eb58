package job

import (
	"cmp"
	"slices"
)

// SlotRun represents the slots [First, End) of a job, which have the same number, such as the fence in which their ranks
// have put their newest values.
type SlotRun struct {
	First, End Slot
	Number     uint32
}

// JoinRuns sorts runs, which must not overlap, and merges those that touch and have the same number.
func JoinRuns(runs []SlotRun) (joined []SlotRun) {
	slices.SortFunc(runs, func(a, b SlotRun) int { return cmp.Compare(a.First, b.First) })
	for _, r := range runs {
		if last := len(joined) - 1; last >= 0 && joined[last].End == r.First && joined[last].Number == r.Number {
			joined[last].End = r.End
			continue
		}
		joined = append(joined, r)
	}
	return joined
}

// UpdateRuns returns old with the numbers in fresh, which replace older ones. Both lists are in order.
func UpdateRuns(old, fresh []SlotRun) []SlotRun {
	all := slices.Clone(fresh)
	next := 0
	for _, r := range old {
		for next < len(fresh) && fresh[next].End <= r.First {
			next++
		}
		for i := next; i < len(fresh) && fresh[i].First < r.End; i++ {
			if fresh[i].First > r.First {
				all = append(all, SlotRun{r.First, fresh[i].First, r.Number})
			}
			r.First = max(r.First, fresh[i].End)
		}
		if r.First < r.End {
			all = append(all, r)
		}
	}
	return JoinRuns(all)
}

// FindRun returns the number of a slot. It returns ok == false if no run has the slot.
func FindRun(runs []SlotRun, slot Slot) (number uint32, ok bool) {
	i, _ := slices.BinarySearchFunc(runs, slot+1, func(r SlotRun, end Slot) int { return cmp.Compare(r.End, end) })
	if i == len(runs) || runs[i].First > slot {
		return 0, false
	}
	return runs[i].Number, true
}
