package queue

import (
	"time"

	"ibrun/bootstrap/tree"
)

// pace is what sessions have cost this agent's machine so far. The window
// follows it, unless the job says how many may be in flight.
type pace struct {
	count int           // sessions
	least time.Duration // that a session took: what it takes without others beside it
	cpu   time.Duration // of this machine, a session
	asked bool          // whether they wait
	since time.Duration // when the last answer came
	next  time.Duration // when it is asked again; 0: it was not asked before
}

const (
	// enough is how many sessions are looked at before the window moves by their cost.
	enough = 4
	// observeEvery is between two looks at sessions of which none has come up: many times
	// what a look takes, and little beside a session that waits.
	observeEvery = 10 * time.Millisecond
	// aCore is how many sessions more a processor gets that has nothing to do.
	aCore = 8
)

// adapts reports whether the window is this agent's to choose.
func (q *Queue) adapts() bool { return q.cfg.Batch == 0 && q.cfg.Cores > 0 }

// Observe reports whether the sessions in flight should be looked at, or the time at which that is asked again; 0 means
// never. They are looked at when there is no room for another and too few have come up to know what one costs. A session
// that waits (for a directory service, or a network) needs nothing of this machine, and should not keep the next one from
// its own wait. Waiting: there are nodes for another session besides those of the queue.
func (q *Queue) Observe(now time.Duration, waiting bool) (due bool, again time.Duration) {
	p := &q.pace
	switch {
	case !q.adapts() || p.asked || p.count >= enough || q.Window >= q.cfg.Most:
	case !waiting && q.Nodes.Len() == 0:
	case now < p.next:
		return false, p.next
	default:
		p.asked = true
		return true, 0
	}
	return false, 0
}

// Observed makes room for more sessions if an eighth of the processors' time was left since the last look. Ran is the
// time that they were used. Nothing is known of the time before the first look.
func (q *Queue) Observed(now, ran time.Duration, inFlight int) {
	p := &q.pace
	span, first := now-p.since, p.next == 0
	p.asked, p.since, p.next = false, now, now+observeEvery
	if first || p.count >= enough || 8*ran >= 7*time.Duration(q.cfg.Cores)*span {
		return
	}
	q.Window = max(q.Window, min(inFlight+max(tree.Window, aCore*q.cfg.Cores), q.cfg.Most))
}

// adapt learns from a session over a remote shell that came up, and adjusts the window.
func (q *Queue) adapt(took, cpu time.Duration) {
	p := &q.pace
	if !q.adapts() || cpu <= 0 {
		return
	}
	p.count++
	if p.count == 1 {
		p.least, p.cpu = took, cpu
	}
	p.least = min(p.least, took)
	p.cpu += (min(cpu, 2*p.cpu) - p.cpu) / 8 // one that was dear moves it by an eighth at most
	if p.count >= enough {
		q.Window = min(tree.Saturate(q.cfg.Cores, p.least, max(p.cpu, time.Microsecond)), q.cfg.Most)
	}
}
