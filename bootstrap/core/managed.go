package core

import (
	"slices"
	"time"

	"ibrun/bootstrap/wire"
)

// A resource manager signals what it has started: scancel --signal=USR1, or #SBATCH
// --signal=USR1@60. It has started agents, and means the ranks. So the reaper passes the signal to
// its agent, the agent to the root, and the root to all ranks, each of which gets it once:
//
//	manager -> reaper -> NodeSignal -> Signal up -> root -> Signal down -> SignalRanks
//
// All agents get the signal at about the same time, and the root takes what comes within
// signalWindow for one. A manager that signals all processes of its job reaches this agent and the
// ranks itself (Direct): they are left out then.

// NodeSignal is a signal that a resource manager has sent to the process that it started on this
// node.
type NodeSignal struct {
	Number uint8
	Direct bool // it was sent to this agent, and so to the ranks, too
}

func (NodeSignal) IsEvent() {}

const (
	sigUsr1 = 10
	sigUsr2 = 12
	sigUrg  = 23
)

// signalWindow is the time in which one signal of a manager comes from all nodes.
const signalWindow = time.Second

// managed is when signals of a manager have come, by their numbers.
type managed struct {
	direct, up, own map[uint8]time.Duration
}

// lately reports whether something of a signal has happened within the window.
func (c *Core) lately(when map[uint8]time.Duration, n uint8) bool {
	at, ok := when[n]
	return ok && c.now-at < signalWindow
}

// note keeps that it happens now.
func (c *Core) note(when *map[uint8]time.Duration, n uint8) {
	if *when == nil {
		*when = map[uint8]time.Duration{}
	}
	(*when)[n] = c.now
}

// isWarning reports whether an agent tells the root of a signal.
func isWarning(n uint8) bool { return slices.Contains([]uint8{sigUsr1, sigUsr2, sigUrg}, n) }

func (c *Core) nodeSignal(ev NodeSignal) {
	n := ev.Number
	switch {
	case ev.Direct:
		c.note(&c.managed.direct, n)
	case n == sigCont: // it is for what is stopped on this node
		if c.starts.ranks != unforked && c.below.Own.Alive > 0 && !c.clock.stopped {
			c.do(SignalRanks{n})
		}
	case isWarning(n) && c.stage != idle && c.stage != ending && c.stage != done:
		c.signalUp(n)
	}
}

// signalUp lets the root send a signal to all ranks, if it has not just done so.
func (c *Core) signalUp(n uint8) {
	m := &c.managed
	if c.lately(m.up, n) || c.lately(m.own, n) {
		return
	}
	c.note(&m.up, n)
	if c.cfg.Root {
		c.passSignal(n)
	} else {
		c.send(Up, wire.Signal{Number: n})
	}
}

// signaled notes a signal to the root itself, and reports whether its agents have told of it already.
func (c *Core) signaled(n uint8) bool {
	m := &c.managed
	known := c.lately(m.up, n) && !c.lately(m.own, n)
	c.note(&m.own, n)
	return known
}
