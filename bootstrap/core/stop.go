package core

import (
	"time"

	"ibrun/bootstrap/core/child"
)

const (
	// stopGrace is the time from SIGTSTP, which programs can catch, to SIGSTOP, which they cannot catch.
	stopGrace = time.Second
	// holdPatience is the maximum time that the root waits for its children to confirm a stop. A child that has not
	// confirmed it by then has been silent for so long that it may be lost.
	holdPatience = hostTimeout
)

// stop handles a SIGTSTP that the root has received from its terminal. See stopState.
func (c *Core) stop() {
	r := &c.root
	switch c.stage {
	case idle, launching:
		r.stop = stopRequested
	case running:
		if c.clock.stopped {
			return // the job is stopped already, and the root waits for children to confirm this or for SIGCONT
		}
		c.passSignal(sigTstp)
		r.stop, r.stopBy = stopAsked, c.now+holdPatience
	default:
		r.stop = stopAsked // only the root is suspended; the rest of the job continues to end
	}
}

// checkStop suspends the root when its children have confirmed the stop, or holdPatience has passed.
func (c *Core) checkStop() {
	r := &c.root
	if r.stop == stopRequested && c.stage >= running {
		c.stop()
	}
	if r.stop != stopAsked || c.stage == done {
		return
	}
	for i := range c.children {
		if k := &c.children[i]; k.In(child.Heard) && k.held < c.clock.stops && c.clock.stopped && c.now < r.stopBy {
			c.wakeAt(r.stopBy)
			return
		}
	}
	r.stop = stopNone
	c.do(Suspend{})
}

// hold begins a stop of the job on this node: it sends SIGTSTP to the ranks, and SIGSTOP after stopGrace.
func (c *Core) hold() {
	if c.stage == ending {
		return
	}
	c.clock.stopped, c.clock.stoppedAt = true, c.now
	c.clock.stops++
	if c.starts.ranks != unforked && c.below.Own.Count() > 0 {
		c.do(SignalRanks{sigTstp})
		c.ranks.stopAt = c.now + stopGrace
		c.wakeAt(c.ranks.stopAt)
	}
}

// checkHold sends SIGSTOP to the ranks of this node if stopGrace has passed since SIGTSTP.
func (c *Core) checkHold() {
	switch at := c.ranks.stopAt; {
	case at == 0:
	case c.now < at:
		c.wakeAt(at)
	default:
		c.ranks.stopAt = 0
		c.do(StopRanks{})
	}
}

// resume continues the ranks of this node after a stop. Neighbours are not considered lost because they were silent
// during the stop. The time limit of -W is extended by the duration of the stop.
func (c *Core) resume() {
	if w := &c.root.waitAt; c.clock.stopped && *w > 0 {
		*w += c.now - c.clock.stoppedAt
		c.wakeAt(*w)
	}
	c.unhold()
	c.excuse(c.now)
	if c.starts.ranks != unforked && c.below.Own.Count() > 0 {
		c.do(ContinueRanks{})
	}
}

// unhold records that the job is not stopped any more, and cancels a pending request to stop it.
func (c *Core) unhold() {
	c.clock.stopped, c.ranks.stopAt, c.root.stop = false, 0, stopNone
}
