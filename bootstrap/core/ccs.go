package core

import "ibrun/bootstrap/wire"

// Requests to programs of Charm++ (docs/dev/decisions/0029-charm.md) go to the agent of a rank, and
// replies to the root. Nobody on the way remembers them: a request that is lost with a link has no
// reply, and the job ends then.

// CCSAsked is a client's request, at the root. ID is the driver's. It is answered by CCSAnswered.
type CCSAsked struct{ wire.CCSRequest }

// CCSReplied answers a CCSOrdered.
type CCSReplied struct{ wire.CCSReply }

// CCSOrdered hands a request to a rank of this node. The driver answers CCSReplied, in any order.
type CCSOrdered struct{ wire.CCSRequest }

// CCSAnswered answers a CCSAsked.
type CCSAnswered struct{ wire.CCSReply }

func (CCSAsked) IsEvent()     {}
func (CCSReplied) IsEvent()   {}
func (CCSOrdered) IsEffect()  {}
func (CCSAnswered) IsEffect() {}

// ccsDown passes a request on.
func (c *Core) ccsDown(m wire.CCSRequest) {
	switch l, below := c.below.Child(m.Rank); {
	case c.stage != running && c.stage != ending:
		c.ccsUp(wire.CCSReply{ID: m.ID, Rank: m.Rank, Trouble: "the job is being launched"})
	case c.below.Own.Has(m.Rank):
		c.do(CCSOrdered{m})
	case below && !c.below.Ended(l):
		c.send(l, m)
	default:
		c.ccsUp(wire.CCSReply{ID: m.ID, Rank: m.Rank, Trouble: "the process of this PE has ended"})
	}
}

// ccsUp passes a reply on.
func (c *Core) ccsUp(m wire.CCSReply) {
	if c.cfg.Root {
		c.do(CCSAnswered{m})
		return
	}
	c.send(Up, m)
}
