package job

import (
	"cmp"
	"slices"
)

// SlotRun assigns the same number to all slots of a job from First up to, but not including, End. For example, the
// number identifies the fence in which the ranks of these slots have put their newest values.
type SlotRun struct {
	First, End Slot
	Number     uint32
}

// JoinRuns returns runs sorted by slot. Adjacent runs with the same number are merged. JoinRuns sorts the slice runs in
// place. The runs must not overlap.
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

// UpdateRuns returns old with the numbers of the slots in fresh replaced. Both lists must be sorted by slot and
// must not have overlaps. The result is also sorted and without overlaps.
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

// FindRun returns the number of a slot. The runs must be sorted by slot. ok is false if no run contains the slot.
func FindRun(runs []SlotRun, slot Slot) (number uint32, ok bool) {
	i, _ := slices.BinarySearchFunc(runs, slot+1, func(r SlotRun, end Slot) int { return cmp.Compare(r.End, end) })
	if i == len(runs) || runs[i].First > slot {
		return 0, false
	}
	return runs[i].Number, true
}
