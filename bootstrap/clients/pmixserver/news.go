package pmixserver

import (
	"math"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// News are the ranks that have put more than one blob, and the number of their newest. A meeting
// carries them: after a fence, a Get must not find what was committed before it and replaced.
// Ranks mostly commit alike, so that their news are one run.

// What a value of a meeting begins with. PMI's values begin with others.
const (
	holdsNews  = 'n' // runs follow
	holdsGroup = 'g' // what a member of a group has for the others follows
)

// appendRuns appends runs, which are in order, to b. Each is encoded as three numbers: the gap to the run
// before it, the number of its slots, and Number.
func appendRuns(b []byte, runs []job.SlotRun) []byte {
	w, at := frame.Encoder(b), job.Slot(0)
	for _, r := range runs {
		w.U32(uint32(r.First - at))
		w.U32(uint32(r.End - r.First))
		w.U32(r.Number)
		at = r.End
	}
	return w
}

// parseRuns decodes runs that appendRuns has encoded. It returns the runs before the first invalid one.
func parseRuns(b []byte) (runs []job.SlotRun) {
	at := uint64(0)
	for r := frame.NewDecoder(b, math.MaxInt); len(r.Rest()) > 0; {
		first := at + r.Uint(job.MaxRanks)
		count, number := r.Uint(job.MaxRanks), r.Uint(job.MaxRanks)
		if at = first + count; r.Err() != nil || count == 0 || at > job.MaxRanks {
			return runs
		}
		runs = append(runs, job.SlotRun{First: job.Slot(first), End: job.Slot(at), Number: uint32(number)})
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
	var all []job.SlotRun
	from := rankwire.Everyone
	for p := range parts[1].All() {
		all, from = append(all, parseRuns(p.Value[1:])...), min(from, p.From)
	}
	return parts[0].Join(rankwire.NewParcels(rankwire.Parcel{
		From: from, To: rankwire.Everyone, Value: appendRuns([]byte{holdsNews}, job.JoinRuns(all)),
	}))
}
