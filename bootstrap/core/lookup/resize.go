package lookup

import (
	"maps"
	"slices"
	"time"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Resized forgets ranks that have left the job, whose layout has fewer: others may get their
// numbers. Nobody is answered about them any more.
func (l *Lookups) Resized(now time.Duration) []Effect {
	l.now = now
	nodes, ranks := job.NodeIndex(l.below.Layout.Nodes()), job.Slot(l.below.Layout.Ranks())
	c := &l.cache
	maps.DeleteFunc(c.blocks, func(node job.NodeIndex, _ []byte) bool { return node >= nodes })
	c.index = slices.DeleteFunc(c.index, func(p placed) bool { return p.node >= nodes })
	maps.DeleteFunc(c.values, func(s subject, value []byte) bool {
		if s.rank < ranks {
			return false
		}
		c.bytes -= len(s.key) + len(value)
		return true
	})
	l.resized = true
	none := func(waiting []requester) (rest []requester) {
		for _, a := range waiting {
			if a.ask.Rank < ranks {
				rest = append(rest, a)
				continue
			}
			l.answer(a, rankwire.Answer{What: rankwire.NoRank})
		}
		return rest
	}
	var over []subject
	for s := range l.open {
		if s.node >= nodes {
			over = append(over, s)
		}
	}
	slices.SortFunc(over, subject.compare)
	for _, s := range over {
		none(l.open[s].waiting)
		delete(l.open, s)
	}
	l.table.early = none(l.table.early)
	if l.below.Own.Left() {
		for _, p := range l.own.parked {
			none([]requester{p.requester})
		}
		l.own.parked = nil
	}
	return l.done()
}

// hasLeft reports whether a rank may have left the job: an answer about it crosses the news.
func (l *Lookups) hasLeft(rank job.Slot) bool {
	return l.resized && uint32(rank) >= l.below.Layout.Ranks()
}
