package core

import "ibrun/bootstrap/wire"

// Requests to programs of Charm++ (docs/dev/decisions/0029-charm.md) go to the agent of a rank, and
// replies to the root. Nobody on the way remembers them: a request that is lost with a link has no
// reply, and the job ends then.

// CCSAsked is the request of a client to the root. The driver chooses the ID. The core answers with CCSAnswered.
type CCSAsked struct{ wire.CCSRequest }

// CCSReplied answers a CCSOrdered.
type CCSReplied struct{ wire.CCSReply }

// CCSOrdered passes a request to a rank of this node. The driver answers with CCSReplied. The answers may come in any
// order.
type CCSOrdered struct{ wire.CCSRequest }

// CCSAnswered answers a CCSAsked.
type CCSAnswered struct{ wire.CCSReply }

func (CCSAsked) IsEvent()     {}
func (CCSReplied) IsEvent()   {}
func (CCSOrdered) IsEffect()  {}
func (CCSAnswered) IsEffect() {}

// ccsDown sends the request m towards its rank. If the rank is on this node, the driver gets the request.
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

// ccsUp sends the reply m to the parent. In the root, the driver gets the reply.
func (c *Core) ccsUp(m wire.CCSReply) {
	if c.cfg.Root {
		c.do(CCSAnswered{m})
		return
	}
	c.send(Up, m)
}
