package core

import (
	"ibrun/bootstrap/core/bulk"
	"ibrun/bootstrap/core/collective"
	"ibrun/bootstrap/core/pairs"
	"ibrun/bootstrap/rankwire"
	"ibrun/bootstrap/wire"
	"ibrun/job"
)

// What the parts of the core want done, in the core's own effects. The lists are cleared, since a
// part keeps its list and the values in it may be large.

func (c *Core) doBulk(effects []bulk.Effect) {
	for _, e := range effects {
		switch e.Do {
		case bulk.Request, bulk.Call:
			c.send(e.To, wire.BulkFetch{Fence: e.Fence})
		case bulk.Read:
			c.do(ReadBulk{e.Fence})
		case bulk.Send:
			c.send(e.To, wire.BulkValues{Fence: e.Fence, Values: e.Values})
		case bulk.Deliver:
			c.do(BulkFetched{e.Fence, e.Values})
		}
	}
	clear(effects)
}

func (c *Core) doCollectives(effects []collective.Effect) {
	for _, e := range effects {
		switch e.Do {
		case collective.Collect:
			c.send(e.To, rankwire.Collect(e.Part))
		case collective.ReleaseChild:
			c.send(e.To, e.Part)
		case collective.ReleaseRank:
			c.do(SendRank{e.Rank, e.Part})
		}
	}
	clear(effects)
}

func (c *Core) doPairs(effects []pairs.Effect) {
	for _, e := range effects {
		if e.What == rankwire.Found {
			c.do(Connect{e.A, e.B})
		} else {
			c.do(SendRank{e.A, rankwire.Pair{Rank: e.B, What: e.What}})
		}
	}
}

// counted is the tally with what the parts have counted. It is asked for once, at the end.
func (c *Core) counted() *job.Tally {
	c.tally.Sum[job.CountBulkFetches] += c.bulk.Started
	c.tally.Sum[job.CountBarriers] += c.collectives.Barriers
	return &c.tally
}
