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
}

// enough is how many sessions are looked at before the window moves.
const enough = 4

// paced learns from a session over a remote shell that came up, and adjusts the window.
func (c *Core) paced(took, cpu time.Duration) {
	p := &c.starts.pace
	if c.job.Launch.Batch > 0 || c.cfg.Cores == 0 || cpu <= 0 {
		return
	}
	p.count++
	if p.count == 1 {
		p.least, p.cpu = took, cpu
	}
	p.least = min(p.least, took)
	p.cpu += (min(cpu, 2*p.cpu) - p.cpu) / 8 // one that was dear moves it by an eighth at most
	if p.count >= enough {
		c.starts.window = tree.Saturate(c.cfg.Cores, p.least, max(p.cpu, time.Microsecond))
	}
}
