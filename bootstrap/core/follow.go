package core

import (
	"slices"

	"ibrun/bootstrap/ccs"
	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// A program of Charm++ that can change its size reports some of its steps by process 0 alone
// (docs/dev/decisions/0029-charm.md). The report goes to the root and from there to all ranks.

// followUp takes a report on its way to the root.
func (c *Core) followUp(m rankwire.Follow) {
	switch {
	case !c.cfg.Root:
		c.send(Up, m)
	case m.Step == rankwire.FollowCan:
		c.root.growing.can, c.root.growing.charm = true, true
	case m.Step == rankwire.FollowCannot:
		c.giveUpResize("its load balancer has no handler " + ccs.ResizeHandler + ", by which Charm++ changes the size of " +
			"a job, or none yet; hint: ask again if it has just begun, or start it with +balancer MetisLB")
	default:
		c.follow(m)
	}
}

// follow passes a report on to all ranks below.
func (c *Core) follow(m rankwire.Follow) {
	for i := range c.children {
		if k := &c.children[i]; !k.In(child.Coming|child.Ended) && len(k.part) > 0 {
			c.send(Link(i), m)
		}
	}
	c.sendRanks(m)
}

// restartingPrograms are those of a job for the ranks that come to one of Charm++: they take up what
// the others have left.
func restartingPrograms(old []job.Program) []job.Program {
	programs := slices.Clone(old)
	programs[0].Argv = append(slices.Clone(programs[0].Argv), ccs.RestartArgs(programs[0].Argv)...)
	return programs
}
