package lookup

import (
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// askOwn answers a question about a rank of this node, or parks it: not being published yet is a
// state, not a time-out.
func (l *Lookups) askOwn(a requester) {
	p := parked{requester: a, unproven: l.checkRuns(a)}
	if !l.tryOwn(p) {
		l.requestPublish(a)
		if l.has(a.ask.Rank, a.ask.Least) && a.ask.Key == "" {
			p.partialAt = l.now + partialAfter
			l.wake(p.partialAt)
		}
		l.own.parked = append(l.own.parked, p)
	}
}

// checkRuns asks a rank whether it runs, if that is the question: it may be stopped.
func (l *Lookups) checkRuns(a requester) bool {
	r := l.local(a.ask.Rank)
	if !a.ask.Fresh || a.ask.Key != "" || !r.published || l.below.Own.Of(a.ask.Rank).Ended() {
		return false
	}
	if !r.checking {
		r.checking = true
		l.send(Rank(a.ask.Rank), rankwire.Wanted{})
	}
	return true
}

// proven answers those who asked whether a rank runs.
func (l *Lookups) proven(rank job.Slot, r *local) {
	r.checking = false
	for i := range l.own.parked {
		if p := &l.own.parked[i]; p.ask.Rank == rank {
			p.unproven = false
		}
	}
	l.unpark()
}

// requestPublish tells a rank that it is wanted, if it waits for that.
func (l *Lookups) requestPublish(a requester) {
	r, p := l.local(a.ask.Rank), l.below.Own.Of(a.ask.Rank)
	if r.later && a.ask.Key == "" && a.ask.Least <= p.Epoch() {
		r.later = false
		l.send(Rank(a.ask.Rank), rankwire.Wanted{})
	}
}

// tryOwn answers if it can.
func (l *Lookups) tryOwn(p parked) bool {
	a, rank := p.requester, l.below.Own.Of(p.ask.Rank)
	left := rank.Left(job.ProgramOf(a.ask.Least))
	switch v, ok := l.local(a.ask.Rank).values[a.ask.Key]; {
	case ok && a.ask.Least <= rank.Epoch():
		l.answer(a, rankwire.Answer{Value: v})
	case left && rank.Failed():
		l.answer(a, rankwire.Answer{What: rankwire.Failed})
	case left:
		l.answer(a, rankwire.Answer{What: rankwire.Exited})
	case a.ask.Key == "" && l.has(a.ask.Rank, a.ask.Least) && !p.unproven &&
		(l.complete() || p.partialAt > 0 && p.partialAt <= l.now):
		l.answer(a, rankwire.Answer{Value: l.ownBlock()})
	default:
		return false
	}
	return true
}

// unpark looks again at what waits for this node's ranks.
func (l *Lookups) unpark() {
	waiting := l.own.parked
	l.own.parked = nil
	for _, p := range waiting {
		switch published := p.ask.Key == "" && l.has(p.ask.Rank, p.ask.Least); {
		case !published: // or not any more: another program has joined
			p.partialAt = 0
		case p.partialAt == 0:
			p.partialAt = l.now + partialAfter
		}
		if l.tryOwn(p) {
			continue
		}
		l.requestPublish(p.requester)
		if p.partialAt > l.now { // else it waits for the rank, not for the time
			l.wake(p.partialAt)
		}
		l.own.parked = append(l.own.parked, p)
	}
	l.publishTable()
}
