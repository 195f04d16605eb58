package core

import (
	"time"

	"ibrun/bootstrap/core/child"
)

const (
	// stopGrace is the time that programs have to act upon SIGTSTP, which they can
	// catch, before SIGSTOP, which they cannot.
	stopGrace = time.Second
	// holdPatience is how long the root waits for its children to confirm. One that
	// has not done so by then has been silent for long enough to be suspected.
	holdPatience = hostTimeout
)

// stop is what the root does about its terminal's request.
func (c *Core) stop() {
	r := &c.root
	switch c.stage {
	case idle, launching:
		r.stop = stopRequested
	case running:
		if c.clock.stopped {
			return // it is stopping, or is about to hear that it goes on
		}
		c.passSignal(sigTstp)
		r.stop, r.stopBy = stopAsked, c.now+holdPatience
	default:
		r.stop = stopAsked // nothing is held: what is left of the job ends meanwhile
	}
}

// checkStop suspends the root when its children hold the job.
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

// hold stops this node's ranks.
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

// checkHold stops what has not stopped by itself.
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

// resume lets this node's ranks go on. What nobody heard meanwhile is
// nobody's fault, and the ranks that -W waits for could not end.
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

// unhold ends a hold, and forgets what the terminal asked for.
func (c *Core) unhold() {
	c.clock.stopped, c.ranks.stopAt, c.root.stop = false, 0, stopNone
}
