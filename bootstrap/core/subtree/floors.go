package subtree

import (
	"iter"
	"maps"
	"slices"

	"ibrun/internal/job"
)

// Floors are the least epochs of ranks that count (job.Epoch): a rank that was restarted has one.
// They never fall. The zero value has none.
type Floors struct {
	ranks    map[job.Slot]uint16
	everyone uint16 // that all ranks have
}

// Of is the floor of a rank; 0: each epoch counts.
func (f *Floors) Of(rank job.Slot) uint16 { return max(f.ranks[rank], f.everyone) }

// OfAll is the floor that all ranks have; 0: none.
func (f *Floors) OfAll() uint16 { return f.everyone }

// RaiseAll raises the floor of all ranks.
func (f *Floors) RaiseAll(epoch uint16) {
	f.everyone = max(f.everyone, epoch)
	maps.DeleteFunc(f.ranks, func(_ job.Slot, own uint16) bool { return own <= f.everyone })
}

// Raise raises the floor of ranks.
func (f *Floors) Raise(first job.Slot, count uint32, epoch uint16) {
	if epoch <= f.everyone {
		return
	}
	if f.ranks == nil {
		f.ranks = map[job.Slot]uint16{}
	}
	for rank := first; rank < first+job.Slot(count); rank++ {
		f.ranks[rank] = max(f.ranks[rank], epoch, f.everyone)
	}
}

// All yields the ranks that have a floor of their own, in order.
func (f *Floors) All() iter.Seq2[job.Slot, uint16] {
	return func(yield func(job.Slot, uint16) bool) {
		for _, rank := range slices.Sorted(maps.Keys(f.ranks)) {
			if !yield(rank, f.ranks[rank]) {
				return
			}
		}
	}
}
