package pmixserver

import (
	"cmp"
	"math"
	"slices"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// News are the ranks that have put more than one blob, and the number of their newest. A meeting
// carries them: after a fence, a Get must not find what was committed before it and replaced.
// Ranks mostly commit alike, so that their news are one run.

// run is a stretch of slots whose newest blobs have the same number.
type run struct {
	first  job.Slot
	count  uint32
	number uint32
}

func (r run) end() job.Slot { return r.first + job.Slot(r.count) }

// What a value of a meeting begins with. PMI's values begin with others.
const (
	holdsNews  = 'n' // runs follow
	holdsGroup = 'g' // what a member of a group has for the others follows
)

// joined sorts runs and makes one of those that touch. They must not overlap.
func joined(runs []run) []run {
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.first, b.first) })
	var out []run
	for _, r := range runs {
		if last := len(out) - 1; last >= 0 && out[last].end() == r.first && out[last].number == r.number {
			out[last].count += r.count
			continue
		}
		out = append(out, r)
	}
	return out
}

// updated is old with news in it, which count where both have a slot. Both are in order.
func updated(old, news []run) []run {
	out := slices.Clone(news)
	for _, r := range old {
		for _, n := range news {
			if n.end() <= r.first || n.first >= r.end() {
				continue
			}
			if n.first > r.first {
				out = append(out, run{r.first, uint32(n.first - r.first), r.number})
			}
			if n.end() >= r.end() {
				r.count = 0
				break
			}
			r = run{n.end(), uint32(r.end() - n.end()), r.number}
		}
		if r.count > 0 {
			out = append(out, r)
		}
	}
	return joined(out)
}

// newestOf is the number of a rank's newest blob that is known.
func newestOf(runs []run, slot job.Slot) uint32 {
	i, found := slices.BinarySearchFunc(runs, slot, func(r run, slot job.Slot) int {
		switch {
		case slot < r.first:
			return 1
		case slot >= r.end():
			return -1
		}
		return 0
	})
	if !found {
		return 1
	}
	return runs[i].number
}

// appendRuns encodes runs in order: for each the gap to the one before it, count, number.
func appendRuns(b []byte, runs []run) []byte {
	w, at := frame.Encoder(b), job.Slot(0)
	for _, r := range runs {
		w.U32(uint32(r.first - at))
		w.U32(r.count)
		w.U32(r.number)
		at = r.end()
	}
	return w
}

// parseRuns is the reverse; it stops at what is none.
func parseRuns(b []byte) (runs []run) {
	at := uint64(0)
	for r := frame.NewDecoder(b, math.MaxInt); len(r.Rest()) > 0; {
		first := at + r.Uint(job.MaxRanks)
		count, number := r.Uint(job.MaxRanks), r.Uint(job.MaxRanks)
		if at = first + count; r.Err() != nil || count == 0 || at > job.MaxRanks {
			return runs
		}
		runs = append(runs, run{job.Slot(first), uint32(count), uint32(number)})
	}
	return runs
}

// Join makes one parcel of those that hold news. All others go on as they are.
func Join(parcels rankwire.Parcels) rankwire.Parcels {
	parts := parcels.Split(2, func(p rankwire.Parcel) int {
		if p.To == rankwire.Everyone && len(p.Value) > 0 && p.Value[0] == holdsNews {
			return 1
		}
		return 0
	})
	if parts[1].Len() < 2 {
		return parcels
	}
	var all []run
	from := rankwire.Everyone
	for p := range parts[1].All() {
		all, from = append(all, parseRuns(p.Value[1:])...), min(from, p.From)
	}
	return parts[0].Join(rankwire.NewParcels(rankwire.Parcel{
		From: from, To: rankwire.Everyone, Value: appendRuns([]byte{holdsNews}, joined(all)),
	}))
}
