package core

import (
	"time"

	"ibrun/bootstrap/core/queries"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Questions to a job that runs (docs/dev/decisions/0025-control.md). Package queries decides which way
// they go; here is what the core knows of a rank, and what the root asks by itself.

// Asked is a question of the user's, at the root. ID is the driver's, and not 0. It is answered by
// Answered.
type Asked struct{ wire.Query }

// Inspected answers an Inspect, for this node.
type Inspected struct{ wire.Reply }

// Inspect asks what the ranks of this node do. The driver answers Inspected, in any order.
type Inspect struct {
	wire.Query
	Host  string    // this agent's
	Ranks []RankNow // that are meant
}

// RankNow is what the core knows of a rank.
type RankNow struct {
	Rank  job.Slot
	State rankwire.Standing
	Op    uint32 // collectives that it has joined
	Call  rankwire.Collective
	Age   time.Duration // since it joined the collective that it waits in
}

// Answered answers an Asked.
type Answered struct{ wire.Reply }

// Missing is reported before the job ends by SIGQUIT or because its time is up: who waits for whom.
type Missing struct {
	wire.Reply
	Signal uint8 // that ends the job; 0: its time is up
}

func (Asked) IsEvent()     {}
func (Inspected) IsEvent() {}
func (Inspect) IsEffect()  {}
func (Answered) IsEffect() {}

const (
	lookPatience = 2 * time.Second // that the end of a job waits for an answer
	lookRows     = 16
)

func (c *Core) asked(ev Asked) {
	if c.stage != running && c.stage != ending {
		c.do(Answered{wire.Reply{ID: ev.ID, Standings: rankwire.Standings{Silent: c.nodesBelow()}}})
		return
	}
	id := c.queries.Next()
	if c.root.asking.tickets == nil {
		c.root.asking.tickets = map[uint32]uint32{}
	}
	c.root.asking.tickets[id] = ev.ID
	c.doQueries(c.queries.Ask(c.now, id, ev.Question))
}

// nodesBelow is how many nodes the job has, while it is being launched.
func (c *Core) nodesBelow() uint32 {
	if c.job == nil {
		return 0
	}
	return c.job.Nodes
}

// answered takes the answer of the whole job.
func (c *Core) answered(id uint32, s rankwire.Standings) {
	a := &c.root.asking
	if ticket, ok := a.tickets[id]; ok {
		delete(a.tickets, id)
		c.do(Answered{wire.Reply{ID: ticket, Standings: s}})
		return
	}
	within := a.own.state == askingNow // hasLooked returns true then, so its caller continues
	a.own.state = looked
	c.do(Report{Missing{wire.Reply{Standings: s}, a.own.signal}})
	switch {
	case within:
	case a.own.signal == 0:
		c.rootDeadlines()
	case c.stage != ending:
		c.interrupted(a.own.signal)
	}
}

// hasLooked reports whether the job may end. Before that, the root asks once what its ranks do, and waits for the
// answer. The first call asks. It returns true at once if the job is not running, because the root cannot ask then.
// signal ends the job after the answer, or is 0 if the time limit of the job does.
func (c *Core) hasLooked(signal uint8) bool {
	own := &c.root.asking.own
	if c.stage != running || own.state != notLooked {
		return c.stage != running || own.state == looked
	}
	*own = ownLook{askingNow, signal}
	c.doQueries(c.queries.Ask(c.now, c.queries.Next(), rankwire.Question{
		What: rankwire.LookAtRanks, Rows: lookRows, PatienceMs: ms(lookPatience),
	}))
	if own.state == askingNow {
		own.state = looking
	}
	return own.state == looked
}

func (c *Core) doQueries(effects []queries.Effect) {
	for _, e := range effects {
		switch e.Do {
		case queries.Ask:
			c.send(e.To, wire.Query{ID: e.ID, Question: e.Question})
		case queries.Inspect:
			c.do(Inspect{wire.Query{ID: e.ID, Question: e.Question}, c.cfg.Host, c.ranksNow(&e.Question)})
		case queries.Wake:
			c.wakeAt(e.At)
		case queries.Answer:
			if c.cfg.Root {
				c.answered(e.ID, e.Standings)
			} else {
				c.send(e.To, wire.Reply{ID: e.ID, Standings: e.Standings})
			}
		}
	}
}

// ranksNow is what the core knows of the ranks of this node that a question is about.
func (c *Core) ranksNow(q *rankwire.Question) (all []RankNow) {
	for rank, p := range c.below.Own.All() {
		if !q.Asks(rank) {
			continue
		}
		now := RankNow{Rank: rank, Op: c.collectives.Joined(rank)}
		op, call := c.collectives.Waiting(rank)
		switch {
		case p.Exited():
			now.State = rankwire.Over
		case p.Ended():
			now.State = rankwire.Left
		case op > 0:
			now.State, now.Call, now.Age = rankwire.Waits, call, c.now-c.local(rank).waits
		case p.Joined() || now.Op > 0:
			now.State = rankwire.Joined
		case c.starts.ranks == forked:
			now.State = rankwire.Runs
		}
		all = append(all, now)
	}
	return all
}
