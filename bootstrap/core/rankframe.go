package core

import (
	"slices"

	"ibrun/bootstrap/core/lookup"
	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/fabric"
	"ibrun/internal/job"
)

// maxNotices is the maximum number of Notices from one program of a rank that are shown to the user. The package ibrun
// sends three at most. The limit prevents a faulty program from filling the links.
const maxNotices = 4

func (c *Core) local(rank job.Slot) *local { return &c.ranks.locals[c.below.Own.Index(rank)] }

// rankFrame handles the message m from a rank of this node. It ignores messages of a program that has ended.
func (c *Core) rankFrame(rank job.Slot, m frame.Message) {
	r, p := c.local(rank), c.below.Own.Of(rank)
	if _, hello := m.(rankwire.Hello); hello && !p.Exited() {
		c.welcome(rank)
		return
	}
	if p.Ended() {
		return
	}
	switch m := m.(type) {
	case rankwire.Publish:
		c.doLookups(c.lookups.Publish(c.now, rank, m.Tuple))
	case rankwire.Later:
		c.doLookups(c.lookups.Later(c.now, rank))
	case rankwire.Ask:
		c.doLookups(c.lookups.Ask(c.now, lookup.Rank(rank), m))
	case rankwire.Put:
		c.doLookups(c.lookups.Put(c.now, rank, m))
	case rankwire.Collect:
		r.waits = c.now
		c.doCollectives(c.collectives.Join(rank, m))
	case rankwire.Pair:
		c.doPairs(c.pairs.Ask(rank, m.Rank))
	case rankwire.Tally:
		if c.job.Transport.Stats && !r.tallied {
			r.tallied = true
			c.tally.Add(m.Of)
		}
	case rankwire.Notice:
		if r.notices++; r.notices <= maxNotices {
			c.reportToUser(rankwire.Notice{Host: c.cfg.Host, Text: m.Text})
		}
	case rankwire.Name:
		m.Rank = rank
		c.nameUp(Up, m)
	case rankwire.SpawnJob:
		m.Rank = rank
		c.spawnAsked(m)
	case rankwire.Abort:
		c.aborted(rank, m)
	case rankwire.Rollback:
		c.rollbackAsked(rank, m.Text)
	case rankwire.Follow:
		if c.job.Layout.Rank(rank) == 0 {
			c.followUp(m)
		}
	case rankwire.Finalize:
		c.rankEnded(rank, false)
	}
}

// welcome handles the Hello of a new program of a rank, and sends it the parameters of the job. The driver guarantees
// that no other program of the rank is connected. Delayed messages of the rank's previous program are dropped.
func (c *Core) welcome(rank job.Slot) {
	p := c.below.Own.Of(rank)
	if !p.Join() {
		c.do(SendRank{rank, rankwire.Refused{Text: "this rank has run 1,023 programs that joined the job: no more can"}})
		return
	}
	if p.Epoch() > 1 {
		c.pairs.Forget(rank)
	}
	c.early = slices.DeleteFunc(c.early, func(ev Event) bool {
		f, ok := ev.(RankFrame)
		return ok && f.Rank == rank
	})
	*c.local(rank) = local{}
	c.lookups.Joined(rank)
	c.do(SendRank{rank, rankwire.Welcome{
		JobID: c.job.ID, Rank: rank, Epoch: p.Epoch(), Op: c.collectives.Joined(rank), Layout: c.job.Layout,
		Key: fabric.DeriveKey(c.job.Secret), How: c.job.Transport, Path: c.cfg.Path,
		Restarts: c.job.Launch.Restarts, Floor: c.below.Floors.OfAll(),
		Resizes: c.resizing.count,
	}})
	if open := c.resizing.open; open.Layout.Nodes() > 0 {
		c.do(SendRank{rank, open})
	}
	if known := c.recovery.Lost(); known.Len() > 0 {
		c.do(SendRank{rank, rankwire.Failures{Ranks: known}})
	}
	for other, epoch := range c.below.Floors.All() {
		if other != rank {
			c.do(SendRank{rank, rankwire.Restarted{First: other, Count: 1, Epoch: epoch}})
		}
	}
	c.doPairs(c.pairs.Retry())
}

// aborted handles the request m of a rank to end the job.
func (c *Core) aborted(rank job.Slot, m rankwire.Abort) {
	c.local(rank).aborted = true
	c.fault(wire.Fault{
		What: wire.FaultAbort, Node: c.ranks.index, Nodes: 1, Rank: rank, Count: 1, Status: exitStatus(m.Code),
		Host: c.cfg.Host, Parent: c.cfg.Host, Cause: m.Text,
	})
}

// rankEnded records that the program of a rank will send no more messages.
func (c *Core) rankEnded(rank job.Slot, failed bool) {
	c.rankChanged(rank, failed, c.below.Own.Of(rank).End(failed))
}

// rankOver records that a rank has exited, or that it could not be started.
func (c *Core) rankOver(rank job.Slot, failed bool) {
	c.rankChanged(rank, failed, c.below.Own.Of(rank).Exit(failed))
}

// rankChanged continues the operations that may have waited for a rank, after the rank has ended. failed says that it
// has failed. first says that its program was part of the job until now.
func (c *Core) rankChanged(rank job.Slot, failed, first bool) {
	if first && failed && c.job.Launch.KeepGoing && c.stage != ending {
		c.tellRecovery(recovery.RanksLost{Ranks: recovery.Span{First: rank, Count: 1}})
	}
	c.doLookups(c.lookups.RankEnded(c.now))
	c.doPairs(c.pairs.Retry())
	c.doCollectives(c.collectives.Check())
}
