// Package queue decides which node of its subtree an agent starts next, and how many sessions it opens at the same
// time.
//
// The work queue of an agent contains the nodes of its subtree for which no session has been started. With late
// binding, a new session serves one node only. When the agent on that node is up, it gets a share of the work queue.
// The window is the maximum number of sessions in flight, which are sessions that are being opened. See
// docs/dev/decisions/0013-late-binding.md.
//
//	queue --the window has room--> session in flight --it comes up--> agent
//	queue --a new agent gets a share--> work queue of that agent --Steal--> queue
//	session in flight --it fails--> session from the parent --it fails--> the root handles the dead node
package queue

import (
	"slices"
	"time"

	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// Config contains the parameters of a Queue, which depend on the job and on the machine of the agent.
type Config struct {
	Window int       // window until the cost of sessions has been measured
	Batch  int       // constant window that the user has chosen; 0 means none, so that Window and Most apply
	Most   int       // maximum to which the window is enlarged
	Cores  int       // processors that sessions may use; 0 keeps the window constant
	Cost   tree.Cost // expected cost of sessions of this agent
}

// Queue is the work queue and the window of one agent.
type Queue struct {
	Nodes  job.Parts // nodes for which no session has been started
	Window int       // present window
	Alone  bool      // children get no share, because nodes seem unable to reach each other

	cfg      Config
	cost     tree.Cost // cfg.Cost; REM is the measured time of a session after the first remote one has come up
	came     int       // sessions that have come up, including local ones
	sessions int       // sessions that have come up over a remote shell
	failed   int       // first sessions to a node that have failed
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

// Take removes the next node from the queue and returns it. If the queue is empty, ok is false.
func (q *Queue) Take() (one job.Part, ok bool) {
	first, rest := q.Nodes.Cut(1)
	if len(first) == 0 {
		return one, false
	}
	q.Nodes = rest
	return first[0], true
}

// SessionUp adjusts the cost of sessions and the window after a session has come up. took is the time from its start.
// cpu is the CPU time of this machine that it has used, or 0 if unknown. A local session is a session to this machine.
// It changes neither the cost nor the window, because it needs no remote shell.
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

// SessionFailed records that the first session to a node has failed. It returns true if this agent seems unable to
// reach any node, because at least two sessions have failed and none has come up.
func (q *Queue) SessionFailed() (barren bool) {
	q.failed++
	return q.came == 0 && q.failed > 1
}

// slow is a multiple of the usual session time. An agent whose session took longer gets no share, and Share does not
// count on sessions in flight that take longer.
const slow = 3

// Shares reports whether an agent that has come up gets a share of the nodes. took is the time in which its session
// came up. The last node is never shared, because this agent starts it in the session slot that has become free.
func (q *Queue) Shares(took time.Duration) bool {
	return q.Nodes.Len() > 1 && !q.Alone && took <= slow*q.cost.REM
}

// Share removes the share of an agent that has come up from the queue and returns it. expected is the time in which
// that agent should have started all nodes of its share. For each other session in flight, elapsed has the time since
// its start. inFlight is the number of these sessions.
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

// GiveHalf removes the second half of the nodes, which would be started last, and returns it.
func (q *Queue) GiveHalf() (give job.Parts) {
	q.Nodes, give = q.Nodes.Cut(q.Nodes.Len() / 2)
	return give
}

// GiveAll removes all nodes and returns them.
func (q *Queue) GiveAll() (all job.Parts) {
	all, q.Nodes = q.Nodes, nil
	return all
}
