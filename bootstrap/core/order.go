package core

import (
	"time"

	"ibrun/bootstrap/core/lookup"
	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
)

// order obeys the parent.
func (c *Core) order(m frame.Message) {
	switch m := m.(type) {
	case wire.Launch:
		c.flow.credit = int(m.Credit)
		c.start(m)
	case wire.Sweep:
		c.do(SweepJob{Job: m.Job, Node: m.Node, Grace: time.Duration(m.GraceMs) * time.Millisecond})
	case wire.Steal:
		if c.stage == launching {
			for _, p := range c.queue.GiveHalf() {
				c.send(Up, wire.Return{Part: p})
			}
		}
	case wire.Membership:
		c.applyMembership(m)
	case rankwire.Resize:
		c.resize(m)
	case wire.Enter:
		c.enter(m)
	case wire.Grant:
		c.granted(int(m.N))
	case wire.Resume:
		c.resumed(m)
	case wire.Passed:
		c.passed(m)
	case wire.Stdin:
		c.repair.inputs++
		c.input.push(m)
	case wire.Signal:
		c.passSignal(m.Number)
		if m.Number == sigTstp {
			c.send(Up, m)
		}
	case rankwire.Ask:
		c.doLookups(c.lookups.Ask(c.now, lookup.Neighbour(Up), m))
	case rankwire.Answer:
		c.doLookups(c.lookups.Answered(m, false))
	case wire.Floor, wire.Recall, rankwire.Failures:
		c.tellRecovery(recovery.Order{Msg: m})
	case wire.Respawn:
		c.repair.respawn = max(c.repair.respawn, m.Serial)
		c.tellRecovery(recovery.Order{Msg: m})
	case wire.Replace:
		c.replaceBelow(m)
	case wire.Standing:
		c.stand(m)
	case rankwire.Release:
		c.doCollectives(c.collectives.Release(m))
	case rankwire.Name:
		c.toRank(m.Rank, m)
	case rankwire.JobSpawned:
		c.toRank(m.Rank, m)
	case rankwire.Follow:
		c.follow(m)
	case wire.Blocks:
		c.doLookups(c.lookups.Table(c.now, m.Values))
	case wire.BulkFetch:
		c.doBulk(c.bulk.Call(m.Fence))
	case wire.BulkValues:
		c.doBulk(c.bulk.Values(m.Fence, m.Values))
	case wire.TableFetch:
		c.doTables(c.tables.Call(m.Round))
	case wire.TableValues:
		c.doTables(c.tables.Values(m.Round, m.Values))
	case wire.Query:
		c.doQueries(c.queries.Ask(c.now, m.ID, m.Question))
	case wire.Daemons, wire.DaemonGrant, wire.DaemonsEnd, wire.DaemonInput, wire.Session, wire.SessionRelease,
		wire.SessionPiece, wire.SessionRoom:
		c.perform(c.tools.FromParent(c.toolPlace(), m))
	case wire.CCSRequest:
		c.ccsDown(m)
	case wire.End:
		c.end(m)
	}
}
