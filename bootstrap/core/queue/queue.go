// Package queue decides which node of its subtree an agent starts next, and how many sessions it opens at the same time.
//
// The work queue has the nodes that nobody has begun, in a tree that is bound late: a session is for one node, and what
// its agent is to start is cut from the work queue when it is up. docs/dev/decisions/0013-late-binding.md.
//
//	queue --window--> session --the agent answers--> agent
//	queue --another agent answers--> that agent's work queue --Steal--> back
//	session --it fails--> the parent's session --it fails--> dead: the root's
package queue

import (
	"slices"
	"time"

	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// Config is what the job and the machine of an agent say about sessions.
type Config struct {
	Window int       // sessions in flight, as long as nothing is measured
	Batch  int       // sessions in flight, if the user has chosen it; 0: not chosen
	Most   int       // maximum number of sessions in flight
	Cores  int       // processors that sessions may use; 0: the window stays as it is
	Cost   tree.Cost // of sessions from here, as planned
}

// Queue is the work queue and the window of one agent.
type Queue struct {
	Nodes  job.Parts // that nobody has begun
	Window int       // sessions that may be in flight
	Alone  bool      // nodes cannot reach each other: nothing is shared

	cfg      Config
	cost     tree.Cost // of sessions from here: as planned, until one has come up
	came     int
	sessions int // of those, over a remote shell
	failed   int // that were the first try of their node
	pace     pace
}

// New returns the queue of an agent, without nodes.
func New(cfg Config) Queue {
	q := Queue{Window: cfg.Window, cfg: cfg, cost: cfg.Cost}
	if cfg.Batch > 0 {
		q.Window = cfg.Batch
	}
	return q
}

// SessionTime returns how long a session usually takes to come up.
func (q *Queue) SessionTime() time.Duration { return q.cost.REM }

// Take removes the next node.
func (q *Queue) Take() (one job.Part, ok bool) {
	first, rest := q.Nodes.Cut(1)
	if len(first) == 0 {
		return one, false
	}
	q.Nodes = rest
	return first[0], true
}

// SessionUp learns from a session that came up. Local: it needed no remote shell.
func (q *Queue) SessionUp(local bool, took, cpu time.Duration) {
	q.came++
	if local {
		return
	}
	took = max(took, time.Microsecond)
	q.adapt(took, cpu)
	switch q.sessions++; q.sessions {
	case 1:
		q.cost.REM = took
	default: // one that is slow moves it by an eighth at most
		q.cost.REM += (min(took, 2*q.cost.REM) - q.cost.REM) / 8
	}
}

// SessionFailed records that a session has failed, and reports whether this agent reaches no node at all.
func (q *Queue) SessionFailed() (barren bool) {
	q.failed++
	return q.came == 0 && q.failed > 1
}

// slow is how many times the usual a session takes whose agent gets no share.
const slow = 3

// Shares reports whether an agent whose session took a time gets a share of the nodes. The slot that its session has
// left takes one node by itself.
func (q *Queue) Shares(took time.Duration) bool {
	return q.Nodes.Len() > 1 && !q.Alone && took <= slow*q.cost.REM
}

// Share removes the share of an agent that has come up, and returns it with the time after which the agent should have
// started it. elapsed are the times for which the other sessions in flight have been opening.
func (q *Queue) Share(elapsed []time.Duration, inFlight int) (part job.Parts, expected time.Duration) {
	cost := q.cost.Windowed(q.Window)
	var waits []time.Duration
	for _, t := range elapsed {
		if t < slow*cost.REM {
			waits = append(waits, max(cost.REM-t, 0))
		}
	}
	own := time.Duration(0) // until there is a slot for one node more
	if inFlight+1 >= q.Window && len(waits) > 0 {
		own = slices.Min(waits)
	}
	part, rest := q.Nodes.Cut(cost.Share(q.Nodes.Len()-1, own, waits))
	if len(part) == 0 {
		return nil, 0
	}
	if most := min(len(part), wire.MaxParts); most < len(part) {
		part, rest = part[:most], part[most:].Add(rest...)
	}
	q.Nodes = rest
	return part, cost.Optimum(part.Len()+1)*3/2 + cost.REM
}

// GiveHalf removes half of the nodes, those that would be begun last, and returns them.
func (q *Queue) GiveHalf() (give job.Parts) {
	q.Nodes, give = q.Nodes.Cut(q.Nodes.Len() / 2)
	return give
}

// GiveAll removes all nodes and returns them.
func (q *Queue) GiveAll() (all job.Parts) {
	all, q.Nodes = q.Nodes, nil
	return all
}
