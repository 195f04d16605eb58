package job

import (
	"cmp"
	"slices"
)

// SlotRun assigns a number to the slots [First, End) of a job, such as the number of the fence in which their ranks
// have put their newest values.
type SlotRun struct {
	First, End Slot
	Number     uint32
}

// JoinRuns returns runs in order, with those merged that touch and have the same number. It sorts the slice runs. Runs
// must not overlap.
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

// UpdateRuns returns old with the numbers of the slots in fresh replaced. Both lists must be in order, without
// overlaps. The result is so, too.
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

// FindRun returns the number of a slot in runs, which are in order. It returns ok == false if no run has the slot.
func FindRun(runs []SlotRun, slot Slot) (number uint32, ok bool) {
	i, _ := slices.BinarySearchFunc(runs, slot+1, func(r SlotRun, end Slot) int { return cmp.Compare(r.End, end) })
	if i == len(runs) || runs[i].First > slot {
		return 0, false
	}
	return runs[i].Number, true
}
