package core

import (
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// offspring is what the root keeps of jobs that its ranks have spawned: each
// is an ibrun of its own, which the driver starts and watches.
type offspring struct {
	live   int
	last   uint32 // number of the last one, from 1
	killed bool   // they were, since they would not end
}

// A program that spawns without end is stopped at so many jobs that run under
// one root, and so many roots under each other.
const (
	mostOffspring = 256
	mostDepth     = 8
)

// spawnAsked takes a request of a rank of this node. What PMI clients say is not held
// against the limits of a frame before.
func (c *Core) spawnAsked(m rankwire.SpawnJob) {
	if err := rankwire.Vocabulary.Check(m, 0); err != nil {
		c.do(SendRank{m.Rank, rankwire.JobSpawned{Rank: m.Rank, Refused: "it asks for what cannot be: " + err.Error()}})
		return
	}
	c.spawnUp(Up, m)
}

// spawnUp passes on the request of a rank for further programs, which is of this node or a child's.
func (c *Core) spawnUp(from Link, m rankwire.SpawnJob) {
	switch {
	case !c.askedUp(from, m):
	case !c.cfg.Root:
		c.send(Up, m)
	case c.stage == ending:
		c.toRank(m.Rank, rankwire.JobSpawned{Rank: m.Rank, Refused: "the job is ending"})
	case c.root.offspring.live >= mostOffspring || c.job.Depth >= mostDepth:
		c.toRank(m.Rank, rankwire.JobSpawned{Rank: m.Rank, Refused: "too many spawned jobs are running"})
	default:
		o := &c.root.offspring
		o.live++
		o.last++
		c.do(StartJob{o.last, m})
	}
}

// toRank brings the root's answer to a rank of the subtree.
func (c *Core) toRank(rank job.Slot, m frame.Message) {
	if c.job == nil || c.repairs() && !c.repair.asked.Answer(m) {
		return
	}
	if c.below.Own.Has(rank) {
		c.do(SendRank{rank, m})
		return
	}
	if to, ok := c.below.Towards(rank); ok && to != Up {
		c.send(to, m)
	}
}

// jobEnded takes the end of a spawned job. One that ran and failed has failed
// like a rank.
func (c *Core) jobEnded(ev JobEnded) {
	c.root.offspring.live--
	c.names.JobEnded(ev.Job)
	if !ev.Ran || ev.Code == 0 {
		return
	}
	if c.because(CauseOffspring, ev.Code) {
		c.root.cause = consequence
		c.awaitBlame()
	}
	if c.cfg.Policy.KillOnBad {
		c.endAll(sigTerm)
	}
}

// signalJobs passes a signal to the spawned jobs.
func (c *Core) signalJobs(n uint8) {
	if c.root.offspring.live > 0 {
		c.do(SignalJobs{n})
	}
}

// nameUp passes on what a rank of the subtree wants of MPI's name service. The
// root has the names, since no rank owns them; its answer goes back to the rank.
func (c *Core) nameUp(from Link, m rankwire.Name) {
	if !c.askedUp(from, m) {
		return
	}
	if !c.cfg.Root {
		c.send(Up, m)
		return
	}
	c.doNames(c.names.Question(0, m))
}
