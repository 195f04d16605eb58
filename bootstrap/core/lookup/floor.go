package lookup

import (
	"maps"
	"time"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// raised is the least epoch that answers a question, by what is known of restarts here.
func (l *Lookups) raised(ask rankwire.Ask) uint16 {
	if floor := l.below.Floors.Of(ask.Rank); floor > 0 {
		return job.Raised(ask.Least, floor)
	}
	return ask.Least
}

// Raised forgets what old starts of ranks have said: their floor has risen. Blocks stay, since an
// epoch in them says which start is meant; whoever waits for one waits for a new one.
func (l *Lookups) Raised(now time.Duration, first job.Slot, count uint32) []Effect {
	l.now = now
	within := func(rank job.Slot) bool { return rank >= first && uint32(rank-first) < count }
	maps.DeleteFunc(l.cache.values, func(s subject, value []byte) bool {
		if old := within(s.rank); !old {
			return false
		}
		l.cache.bytes -= len(s.key) + len(value)
		return true
	})
	for _, q := range l.open {
		for i := range q.waiting {
			q.waiting[i].ask.Least = l.raised(q.waiting[i].ask)
		}
	}
	for i := range l.own.parked {
		p := &l.own.parked[i]
		p.ask.Least = l.raised(p.ask)
		p.unproven = p.unproven && !within(p.ask.Rank) // a new start that publishes runs
	}
	for rank := range l.below.Own.All() {
		if within(rank) {
			l.Joined(rank)
		}
	}
	l.unpark()
	return l.done()
}
