// Package queue decides which node of its subtree an agent starts next, and how many sessions it opens at the same
// time.
//
// The work queue contains nodes for which no session has been started. With late binding, a session is opened for one
// node only. When the agent on that node is up, it gets a share of the work queue. See
// docs/dev/decisions/0013-late-binding.md.
//
//	queue --window--> session --the agent answers--> agent
//	queue --another agent answers and gets a share--> work queue of that agent --Steal--> queue
//	session --failure--> session from the parent --failure--> dead, handled by the root
package queue

import (
	"slices"
	"time"

	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// Config holds the limits on sessions that the job and the machine of an agent set.
type Config struct {
	Window int       // sessions in flight until the cost of sessions has been measured
	Batch  int       // sessions in flight that the user has chosen, or 0
	Most   int       // maximum number of sessions in flight
	Cores  int       // processors that sessions may use; 0 keeps the window constant
	Cost   tree.Cost // expected cost of sessions of this agent
}

// Queue is the work queue and the window of one agent.
type Queue struct {
	Nodes  job.Parts // nodes without a session
	Window int       // maximum number of sessions in flight at present
	Alone  bool      // nodes cannot reach each other, so children get no share

	cfg      Config
	cost     tree.Cost // cost of sessions of this agent: cfg.Cost until one has come up, then measured
	came     int       // sessions that have come up
	sessions int       // sessions that have come up over a remote shell
	failed   int       // sessions that have failed, not counting second attempts for a node
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

// SessionTime returns the usual time from the start of a session until it is up.
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

// SessionUp adjusts the cost of sessions and the window after a session has come up. took is the time that the session
// needed, and cpu is the CPU time of this machine that it used, or 0 if unknown. A local session needs no remote shell
// and changes neither cost nor window.
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
	default: // a slow session raises the estimate by an eighth at most
		q.cost.REM += (min(took, 2*q.cost.REM) - q.cost.REM) / 8
	}
}

// SessionFailed records that the first session to a node has failed. It reports whether this agent seems unable to
// reach any node: at least two sessions have failed and none has come up.
func (q *Queue) SessionFailed() (barren bool) {
	q.failed++
	return q.came == 0 && q.failed > 1
}

// slow is a multiple of the usual session time. An agent whose session took longer gets no share.
const slow = 3

// Shares reports whether an agent gets a share of the nodes. took is the time in which its session came up. The last
// node is never shared, because the session slot that is free now can start it.
func (q *Queue) Shares(took time.Duration) bool {
	return q.Nodes.Len() > 1 && !q.Alone && took <= slow*q.cost.REM
}

// Share removes the share of an agent that has come up from the queue and returns it. expected is the time in which the
// agent should have started all nodes of its share. elapsed has the time since the start of each other session in
// flight.
func (q *Queue) Share(elapsed []time.Duration, inFlight int) (part job.Parts, expected time.Duration) {
	cost := q.cost.Windowed(q.Window)
	var waits []time.Duration
	for _, t := range elapsed {
		if t < slow*cost.REM {
			waits = append(waits, max(cost.REM-t, 0))
		}
	}
	own := time.Duration(0) // time until this agent has a free session slot
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

// GiveHalf removes the second half of the queue, which would be started last, and returns it.
func (q *Queue) GiveHalf() (give job.Parts) {
	q.Nodes, give = q.Nodes.Cut(q.Nodes.Len() / 2)
	return give
}

// GiveAll removes all nodes and returns them.
func (q *Queue) GiveAll() (all job.Parts) {
	all, q.Nodes = q.Nodes, nil
	return all
}
