package ibrun

import (
	"context"
	"os"
	"strconv"
	"time"

	"ibrun/bootstrap/rankwire"
	"ibrun/internal/standing"
)

// Overview is what all ranks of the job do, as ibrun ctl status and ibrun ctl ranks show it.
type Overview struct {
	Nodes  int // whose agents have answered
	Silent int // whose agents have not
	Groups []OverviewGroup
	// Ranks are at most 64 single ranks: those that have joined the fewest collectives, and of
	// these the least busy.
	Ranks []OverviewRank
}

// OverviewGroup is ranks that are in the same state, of which there are at most 64 in an Overview.
type OverviewGroup struct {
	State      string // "not started", "runs", "joined", "waits", "finalized" or "exited"
	Joined     int    // collectives that each rank has joined, with the one that it waits in
	Collective string // that they wait in, such as "Barrier"; empty: in none
	Count      int
	Ranks      string        // "0-16,18"; a list that is too long ends with what it leaves out
	Waiting    time.Duration // the longest time that one of them has been in the collective
	CPU        time.Duration // that all have used together
	Memory     uint64        // of all together, in bytes
}

// OverviewRank is one rank.
type OverviewRank struct {
	Rank       int
	Host       string
	PID        int    // 0: it does not run
	State      string // as in OverviewGroup, and the same for Joined, Collective and Waiting
	Joined     int
	Collective string
	Waiting    time.Duration
	CPU        time.Duration
	Memory     uint64 // in bytes
	WaitsIn    string // the system call that its first thread waits in; empty: it computes
}

// Overview asks the agents what all ranks do: who waits in which collective, and who has not joined
// it. No rank is stopped or has to answer. However many ranks ask at a time, the question goes once
// over each edge of the launch tree; what a rank gets may have been asked by another just before.
// Nodes that do not answer within 10 s are counted in Silent.
//
// The error is that of ctx, an AgentError if this node's agent is lost, or ErrFinalized.
func (w *World) Overview(ctx context.Context) (Overview, error) {
	if err := w.usable(); err != nil {
		return Overview{}, err
	}
	if w.control == nil {
		return w.overviewAlone(), nil
	}
	answer := make(chan Overview, 1)
	w.mu.Lock()
	w.overviews = append(w.overviews, answer)
	first := len(w.overviews) == 1
	w.mu.Unlock()
	if first {
		if err := w.send(rankwire.Overview{}); err != nil {
			return Overview{}, err
		}
	}
	select {
	case o := <-answer:
		return o, nil
	case <-ctx.Done():
		return Overview{}, ctx.Err()
	case <-w.over:
		return Overview{}, w.agentError()
	}
}

// overviewAlone is that of a job of one rank, which has no agent.
func (w *World) overviewAlone() Overview {
	host, _ := os.Hostname()
	const joined = "joined"
	return Overview{
		Nodes: 1, Groups: []OverviewGroup{{State: joined, Count: 1, Ranks: strconv.Itoa(w.Rank())}},
		Ranks: []OverviewRank{{Rank: w.Rank(), Host: host, PID: os.Getpid(), State: joined}},
	}
}

// overviewed gives the agent's answer to all who wait for it.
func (w *World) overviewed(m rankwire.OverviewReply) {
	s := standing.Of(*w.layout.Load(), m.Standings)
	o := Overview{Nodes: int(s.Nodes), Silent: int(s.Silent)}
	for _, g := range s.Groups {
		o.Groups = append(o.Groups, OverviewGroup{State: g.State, Joined: int(g.Op), Collective: g.Call,
			Count: int(g.Count), Ranks: g.Ranks, Waiting: seconds(g.Age), CPU: seconds(g.CPU), Memory: g.Memory})
	}
	for _, r := range s.Rows {
		o.Ranks = append(o.Ranks, OverviewRank{Rank: int(r.Rank), Host: r.Host, PID: int(r.PID), State: r.State,
			Joined: int(r.Op), Collective: r.Call, Waiting: seconds(r.Age), CPU: seconds(r.CPU), Memory: r.Memory,
			WaitsIn: r.Waits})
	}
	w.mu.Lock()
	waiting := w.overviews
	w.overviews = nil
	w.mu.Unlock()
	for _, answer := range waiting {
		answer <- o
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
