package queue

import (
	"time"

	"ibrun/bootstrap/tree"
)

// pace contains measurements of remote sessions on this agent's machine. The window is adapted to them, unless the user
// has chosen a constant window.
type pace struct {
	count int           // number of sessions measured
	least time.Duration // shortest time of a session, which approximates that of a session on an idle machine
	cpu   time.Duration // estimated CPU time of this machine per session
	asked bool          // Observe has returned true, and Observed has not been called since
	since time.Duration // time of the last observation
	next  time.Duration // time of the next observation; 0 before the first one
}

const (
	// enough is the number of sessions that are measured before the window depends on their cost.
	enough = 4
	// observeEvery is the interval between observations of the sessions in flight. It is much longer than an
	// observation takes, and much shorter than a session that waits for a service.
	observeEvery = 10 * time.Millisecond
	// aCore is the number of sessions by which the window may exceed those in flight for each processor, if processors
	// are idle.
	aCore = 8
)

// adapts reports whether the window is adapted to the cost of sessions.
func (q *Queue) adapts() bool { return q.cfg.Batch == 0 && q.cfg.Cores > 0 }

// Observe reports whether the CPU time of the sessions in flight should be measured now. Call it when the window is
// full. If due is true, call Observed with the result. If it is too early, again is the time for the next call.
// Otherwise again is 0. waiting says that nodes that are not in the queue wait for a session.
//
// Measurements are made as long as too few sessions have come up to know the cost of one. Sessions that wait for a
// directory service or a network use no CPU time, and should not delay the start of others.
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

// Observed handles the result of a measurement. ran is the time for which the processes that open sessions, and this
// agent, have run or waited for a processor since the last measurement. If that leaves more than an eighth of the
// processors' time unused, Observed enlarges the window. The first measurement only sets the start of the next one.
func (q *Queue) Observed(now, ran time.Duration, inFlight int) {
	p := &q.pace
	span, first := now-p.since, p.next == 0
	p.asked, p.since, p.next = false, now, now+observeEvery
	if first || p.count >= enough || 8*ran >= 7*time.Duration(q.cfg.Cores)*span {
		return
	}
	q.Window = max(q.Window, min(inFlight+max(tree.Window, aCore*q.cfg.Cores), q.cfg.Most))
}

// adapt adjusts the window after a remote session has come up. took is the time from the start of the session. cpu is
// its CPU time on this machine. If cpu is 0, it is unknown, and adapt does nothing.
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
