package core

import (
	"time"

	"ibrun/bootstrap/core/queries"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// This file handles questions to a running job (docs/dev/decisions/0025-control.md). Package queries sends them through
// the tree and collects the answers. The core provides the state of each rank, and the root asks one question itself.

// Asked is a question of the user to the root. The driver chooses the ID, which must not be 0. The core answers with
// Answered.
type Asked struct{ wire.Query }

// Inspected answers an Inspect.
type Inspected struct{ wire.Reply }

// Inspect asks what the ranks of this node do. The driver answers with Inspected. The answers may come in any order.
type Inspect struct {
	wire.Query
	Host  string    // host of this agent
	Ranks []RankNow // ranks that the question is about
}

// RankNow is what the core knows of a rank.
type RankNow struct {
	Rank  job.Slot
	State rankwire.Standing
	Op    uint32 // number of collectives that the rank has joined
	Call  rankwire.Collective
	Age   time.Duration // time since the rank joined the collective in which it waits
}

// Answered answers an Asked.
type Answered struct{ wire.Reply }

// Missing tells the user which ranks wait for which others. The root reports it before the job ends because of SIGQUIT
// or its time limit.
type Missing struct {
	wire.Reply
	Signal uint8 // signal that ends the job; 0 if the time limit has expired
}

func (Asked) IsEvent()     {}
func (Inspected) IsEvent() {}
func (Inspect) IsEffect()  {}
func (Answered) IsEffect() {}

const (
	lookPatience = 2 * time.Second // maximum time for which the end of the job waits for the answers
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

// nodesBelow returns the number of nodes of the job, or 0 if the root has no job yet.
func (c *Core) nodesBelow() uint32 {
	if c.job == nil {
		return 0
	}
	return c.job.Nodes
}

// answered handles the answer s of the whole job to the question with the given id. The question came from the user or
// from hasLooked.
func (c *Core) answered(id uint32, s rankwire.Standings) {
	a := &c.root.asking
	if ticket, ok := a.tickets[id]; ok {
		delete(a.tickets, id)
		c.do(Answered{wire.Reply{ID: ticket, Standings: s}})
		return
	}
	within := a.own.state == askingNow // hasLooked has not returned yet, and its caller will end the job
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

// hasLooked reports whether the root has learned what its ranks do, so that the job may end. The first call asks the
// ranks. If the job is not running, the root cannot ask, and hasLooked returns true. signal is the signal that ends the
// job, or 0 if the time limit has expired.
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
