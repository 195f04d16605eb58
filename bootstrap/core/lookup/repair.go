package lookup

import (
	"slices"
	"time"

	"ibrun/bootstrap/core/subtree"
)

// A question is a subject, so that it can be asked again on a new link: whoever gets it twice has
// it once.

// Moved sends the questions that went to a child, which is about to end, to those that have its
// nodes now. AskAgain asks them.
func (l *Lookups) Moved(from subtree.Link) {
	for _, s := range l.about(from) {
		q := l.open[s]
		if to, ok := l.below.Towards(q.ask.Rank); ok {
			q.to = to
		}
	}
}

// Took records that a child replaces another one, which is about to end. The table does not wait for the blocks of the
// child, because they may have been lost with the other one. Addresses missing in the table are looked up individually.
func (l *Lookups) Took(child subtree.Link) {
	l.becomePart(child, partHere)
}

// AskAgain repeats what was asked on a link, which is new.
func (l *Lookups) AskAgain(now time.Duration, to subtree.Link) []Effect {
	l.now = now
	for _, s := range l.about(to) {
		l.send(Neighbour(to), l.open[s].ask)
	}
	return l.done()
}

// ParentLost drops what an old parent has asked. The new one asks again.
func (l *Lookups) ParentLost() {
	gone := func(r requester) bool { return !r.Here && r.Link == subtree.Up }
	for _, q := range l.open {
		q.waiting = slices.DeleteFunc(q.waiting, gone)
	}
	l.own.parked = slices.DeleteFunc(l.own.parked, func(p parked) bool { return gone(p.requester) })
	l.table.early = slices.DeleteFunc(l.table.early, gone)
}
