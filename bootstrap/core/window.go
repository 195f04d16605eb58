package core

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

// follows reports whether the window is this agent's to choose.
func (c *Core) follows() bool { return c.job.Launch.Batch == 0 && c.cfg.Cores > 0 }

// observe looks at the sessions on their way, when there is no room for another and
// too few have come up to know what one costs. One that waits (for a directory
// service, or a network) needs nothing of this machine, and should not keep the
// next one from its own wait.
func (c *Core) observe() {
	s, p := &c.starts, &c.starts.pace
	switch {
	case !c.follows() || p.asked || p.count >= enough || s.window >= c.cfg.Most:
	case s.next == len(c.children) && c.queue.nodes.Len() == 0:
	case c.now < p.next:
		c.wakeAt(p.next)
	default:
		p.asked = true
		c.do(ObserveSessions{})
	}
}

// observed makes room for more sessions if an eighth of the processors' time was left
// since the last look. Nothing is known of the time before the first one.
func (c *Core) observed(ev SessionsObserved) {
	s, p := &c.starts, &c.starts.pace
	span, first := c.now-p.since, p.next == 0
	p.asked, p.since, p.next = false, c.now, c.now+observeEvery
	if first || p.count >= enough || 8*ev.Ran >= 7*time.Duration(c.cfg.Cores)*span {
		return
	}
	s.window = max(s.window, min(s.inFlight+max(tree.Window, aCore*c.cfg.Cores), c.cfg.Most))
}

// paced learns from a session over a remote shell that came up, and adjusts the window.
func (c *Core) paced(took, cpu time.Duration) {
	p := &c.starts.pace
	if !c.follows() || cpu <= 0 {
		return
	}
	p.count++
	if p.count == 1 {
		p.least, p.cpu = took, cpu
	}
	p.least = min(p.least, took)
	p.cpu += (min(cpu, 2*p.cpu) - p.cpu) / 8 // one that was dear moves it by an eighth at most
	if p.count >= enough {
		c.starts.window = min(tree.Saturate(c.cfg.Cores, p.least, max(p.cpu, time.Microsecond)), c.cfg.Most)
	}
}
