package queue

import (
	"time"

	"ibrun/bootstrap/tree"
)

// pace holds the measured cost of sessions on this agent's machine. The window is adapted to it, unless the user has
// chosen the number of sessions in flight.
type pace struct {
	count int           // sessions measured
	least time.Duration // shortest time of a session, which approximates that of a session on an idle machine
	cpu   time.Duration // CPU time of this machine per session
	asked bool          // an observation of the sessions in flight is in progress
	since time.Duration // time of the last observation
	next  time.Duration // time of the next observation; 0 before the first one
}

const (
	// enough is the number of sessions that are measured before the window depends on their cost.
	enough = 4
	// observeEvery is the interval between observations of the sessions in flight. It is much longer than an
	// observation takes, and much shorter than a session that waits for a service.
	observeEvery = 10 * time.Millisecond
	// aCore is the number of sessions that are added for each processor if processors are idle.
	aCore = 8
)

// adapts reports whether this agent chooses the window itself.
func (q *Queue) adapts() bool { return q.cfg.Batch == 0 && q.cfg.Cores > 0 }

// Observe reports whether the CPU time of the sessions in flight should be measured now. If it is too early for that,
// again is the time for the next call; otherwise again is 0. Call Observe when the window is full. It returns true if
// too few sessions have come up to know the cost of one: a session that waits for a directory service or a network uses
// no CPU time, and should not delay the start of the next one. waiting says that nodes outside the queue wait for a
// session.
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

// Observed enlarges the window if more than an eighth of the processors' time was idle since the last observation. ran
// is the time for which the sessions have run or waited for a processor since then. The first observation only starts
// the measurement.
func (q *Queue) Observed(now, ran time.Duration, inFlight int) {
	p := &q.pace
	span, first := now-p.since, p.next == 0
	p.asked, p.since, p.next = false, now, now+observeEvery
	if first || p.count >= enough || 8*ran >= 7*time.Duration(q.cfg.Cores)*span {
		return
	}
	q.Window = max(q.Window, min(inFlight+max(tree.Window, aCore*q.cfg.Cores), q.cfg.Most))
}

// adapt adjusts the window after a session over a remote shell has come up. took is the time of the session, and cpu
// its CPU time on this machine, or 0 if unknown.
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
	p.cpu += (min(cpu, 2*p.cpu) - p.cpu) / 8 // an expensive session raises the estimate by an eighth at most
	if p.count >= enough {
		q.Window = min(tree.Saturate(q.cfg.Cores, p.least, max(p.cpu, time.Microsecond)), q.cfg.Most)
	}
}
