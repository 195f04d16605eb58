package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// repaired is what a run of a job that repairs its tree is held to besides: each byte that a rank
// has printed is written once, in order, unless its agent was lost or the job was ended early; and
// each rank has the outcome of a collective once.
type repaired struct {
	printed, written map[job.Slot]int
	released         map[job.Slot]map[uint32]int
	lost             map[uint32]bool // nodes whose agents were killed, or gave up
	adopted          int
	again            int // nodes whose ranks were started again
	others           int // faults that are no loss of an agent or a session
}

// more counts a fault that is not the loss of an agent.
func (r *repaired) more(name string) {
	if r != nil && !strings.Contains(name, "agent") {
		r.others++
	}
}

func newRepaired(cfg *Config) *repaired {
	cfg.Job.Launch.Repair = true
	cfg.Run += 3 * time.Second
	return &repaired{
		printed: map[job.Slot]int{}, written: map[job.Slot]int{}, released: map[job.Slot]map[uint32]int{},
		lost: map[uint32]bool{},
	}
}

func (r *repaired) stepped(c *chaos, a *agent, ev core.Event, effects []core.Effect) {
	if r == nil {
		return
	}
	switch ev := ev.(type) {
	case core.RankOutput:
		r.printed[ev.Rank] += len(ev.Data)
	case core.Relinked:
		r.adopted++
	}
	for _, e := range effects {
		switch e := e.(type) {
		case core.Write:
			r.written[e.Rank] += len(e.Data)
		case core.Report:
			c.honest(a, e.What)
		case core.SignalRanks, core.KillRanks:
			r.lost[a.node] = true
		case core.Fork:
			if e.Start == 0 {
				continue
			}
			r.again++
			r.lost[a.node] = true // the output of the earlier start may be lost
			for i := range e.Node.Ranks {
				delete(r.released, e.Node.First+job.Slot(i))
			}
		case core.SendRank:
			if m, ok := e.Msg.(rankwire.Release); ok {
				if r.released[e.Rank] == nil {
					r.released[e.Rank] = map[uint32]int{}
				}
				if r.released[e.Rank][m.Op]++; r.released[e.Rank][m.Op] > 1 {
					c.audit.fail(a, "rank %d has the outcome of collective %d twice", e.Rank, m.Op)
				}
			}
		}
	}
}

// honest requires that no agent is accused of sending invalid messages.
func (c *chaos) honest(a *agent, what any) {
	var f wire.Fault
	switch what := what.(type) {
	case wire.Fault:
		f = what
	case core.Restarting:
		f = what.Fault
	}
	if strings.Contains(f.Cause, "no agent sends") {
		c.audit.fail(a, "an honest agent is cut off: %s", f.Cause)
	}
}

// rollBack lets a rank request a restart of all ranks at a random time.
func (r *repaired) rollBack(c *chaos, rng *rand.Rand) {
	node, at := uint32(rng.IntN(c.nodes)), time.Duration(rng.Int64N(int64(4*time.Second)))
	r.others++
	c.inject("roll back", node, at, func() {
		if a := c.w.agents[node]; c.runs(node) {
			c.w.post(0, a, core.RankFrame{Rank: a.rank.First, Msg: rankwire.Rollback{Text: "a checkpoint"}})
		}
	})
}

// draw adds faults that cost no rank but those of one node.
func (r *repaired) draw(c *chaos, rng *rand.Rand) {
	if r == nil {
		return
	}
	for range 1 + rng.IntN(4) {
		node, at := uint32(rng.IntN(c.nodes)), time.Duration(rng.Int64N(int64(4*time.Second)))
		name, do := "end session", func() { c.w.EndSession(node) }
		if rng.IntN(2) == 0 {
			name, do = "kill agent", func() {
				c.lossy = c.lossy || c.runs(node)
				c.w.Kill(node)
			}
		}
		c.inject(name, node, at, do)
	}
}

// ended compares the output of the job with the data that the ranks have printed.
func (r *repaired) ended(c *chaos) {
	if r == nil || c.killed || c.w.Outcome == nil {
		return
	}
	gone := func(rank job.Slot) bool {
		for _, run := range c.w.Outcome.Runs {
			if rank >= run.First && uint32(rank-run.First) < run.Count {
				return run.Status.Kind == job.Lost
			}
		}
		return true
	}
	for rank, printed := range r.printed {
		node := uint32(c.w.cfg.Nodes.NodeOf(rank))
		written := r.written[rank]
		if written > printed {
			c.audit.wrong = append(c.audit.wrong, fmt.Sprintf("rank %d printed %d of %d bytes", rank, printed, written))
		}
		if !gone(rank) && !r.lost[node] && c.w.Outcome.Truncated == 0 && written < printed {
			c.audit.wrong = append(c.audit.wrong,
				fmt.Sprintf("of rank %d %d of %d bytes are there", rank, written, printed))
		}
	}
}

// TestRandomRepairs: whatever happens to a job that repairs its tree, the promises of every job
// hold, and nothing is lost or doubled where an agent lives. Agents are adopted in most runs.
func TestRandomRepairs(t *testing.T) {
	adopted, again := 0, 0
	eachSeed(t, scale.repairs, func(seed uint64, printLine func(string)) (*chaos, []string) {
		c := chaosOf(seed, repairing, printLine)
		wrong := c.play()
		adopted, again = adopted+c.repair.adopted, again+c.repair.again
		return c, wrong
	})
	t.Logf("%d agents got a new parent, the ranks of %d nodes started again", adopted, again)
	if scale.repairs >= 25 && *seed == 0 && adopted < scale.repairs/2 {
		t.Errorf("only %d agents got a new parent", adopted)
	}
}
