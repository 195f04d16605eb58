package core

import (
	"slices"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// A job that changes its size (docs/dev/decisions/0030-grow-and-shrink.md). Here is what each agent
// does; what the root decides is in grow.go.
//
//	Resize waits, agreed --> passed on, told to ranks
//	Resize done          --> passed on, told to ranks, the layout holds
//	    nodes of the subtree leave --all of them have ended--> Departed
//
// An agent whose node leaves ends with its ranks, as at the end of a job. One that has agents of
// nodes below it that stay goes on without ranks.

// resizing is what an agent keeps of changes of the job's size.
type resizing struct {
	count    uint32          // of those that hold
	open     rankwire.Resize // that waits, or is agreed; no nodes: there is none
	departed bool            // the parent knows that the nodes that leave have ended, or none leaves
	leave    bool            // nodes of this subtree leave
}

// resize passes on what the root says of a change, and does it.
func (c *Core) resize(m rankwire.Resize) {
	for i := range c.children {
		if !c.children[i].In(child.Coming) {
			c.send(Link(i), m)
		}
	}
	c.sendRanks(m)
	c.resizing.open = m
	if m.Step != rankwire.ResizeDone {
		return
	}
	c.resizing.open = rankwire.Resize{}
	c.resizing.count++
	old := c.job.Layout.Ranks()
	c.job = resizedJob(c.job, m.Layout)
	c.below.Layout = m.Layout
	if ranks := m.Layout.Ranks(); ranks > old && m.Start > 0 {
		c.below.Floors.Raise(job.Slot(old), ranks-old, job.Epoch(m.Start, 1))
	}
	c.leaveNodes(job.NodeIndex(m.Layout.Nodes()))
	c.below.Route(c.partsOf)
	c.tables.Forget()
	c.doLookups(c.lookups.Resized(c.now))
}

// keepsSize reports whether the job cannot change its size, because of what it does about failures.
func (c *Core) keepsSize() bool {
	how := &c.job.Launch
	return how.Restarts || how.KeepGoing || how.Repair
}

// resizedJob is a job with another layout. Its one program has all ranks.
func resizedJob(old *job.Job, l job.Layout) *job.Job {
	j := *old
	j.Layout, j.Nodes, j.Size = l, l.Nodes(), l.Ranks()
	j.Programs = slices.Clone(j.Programs)
	j.Programs[0].Count = j.Size
	return &j
}

// leaveNodes takes nodes out of the job that its layout does not have.
func (c *Core) leaveNodes(from job.NodeIndex) {
	r := &c.resizing
	for i := range c.children {
		k := &c.children[i]
		left := k.part.Within(from, job.MaxNodes)
		if k.In(child.Coming) || len(left) == 0 {
			continue
		}
		k.left, k.leaving = k.left.Without(from, job.MaxNodes), left
		if k.part = k.part.Without(from, job.MaxNodes); len(k.part) == 0 {
			c.below.Rest(Link(i), true) // it joins no collective any more
		}
		r.leave, r.departed = true, false
	}
	if !c.cfg.Root && c.ranks.index >= from && !c.below.Own.Left() {
		c.below.Own.Leave()
		c.finish.ends = nil // of nodes below it, which leave with it or have left
		r.leave, r.departed = true, false
	}
}

// checkDeparted says that the nodes of this subtree which leave have ended. An agent that goes on
// without ranks has looked what these have left.
func (c *Core) checkDeparted() {
	r := &c.resizing
	if !r.leave || r.departed || c.stage != running {
		return
	}
	for i := range c.children {
		if k := &c.children[i]; len(k.leaving) > 0 && !k.In(child.Ended) {
			return
		}
	}
	if c.below.Own.Left() {
		if c.below.Own.Alive > 0 || c.below.Own.Undrained > 0 || c.finish.childrenEnded == len(c.children) {
			return // it ends itself, and says Exit
		}
		if c.finish.sweep == unswept {
			c.finish.sweep = sweeping
			c.do(Sweep{sweepMost})
		}
		if c.finish.sweep != swept {
			return
		}
	}
	r.departed, r.leave = true, false
	if c.cfg.Root {
		if c.root.growing.step == growLeaving {
			c.resizeOver()
		}
		return
	}
	c.send(Up, wire.Departed{})
}

// enter lets the ranks of an agent start that has come to a running job.
func (c *Core) enter(m wire.Enter) {
	if c.stage != running {
		return
	}
	c.resizing.count = m.Resizes
	c.doCollectives(c.collectives.Floor(m.Op))
	for _, f := range m.Floors {
		c.below.Floors.Raise(f.Rank, 1, f.Epoch)
	}
	for _, p := range c.below.Own.All() {
		p.Restart(m.Start)
	}
	c.fork()
}

// resizeLies says what of a change cannot be: nodes of this subtree keep their ranks. A size changes
// when all ranks run, so that no agent below is told of it before its own do.
func (c *Core) resizeLies(m rankwire.Resize) string {
	if c.stage == launching || c.starts.ranks == unforked || c.keepsSize() {
		return "before the ranks run, or that nobody wants"
	}
	nodes := job.NodeIndex(m.Layout.Nodes())
	lies := !rankwire.Resizable(c.job.Layout) || !rankwire.Resizable(m.Layout) || len(c.job.Programs) != 1
	if c.ranks.index < nodes && !c.below.Own.Left() {
		first, count := m.Layout.SlotsOn(c.ranks.index)
		lies = lies || first != c.below.Own.First() || count != c.below.Own.Count()
	}
	for i := range c.children {
		for _, p := range c.children[i].part.Within(0, nodes) {
			lies = lies || !p.Fits(m.Layout)
		}
	}
	return lieIf(lies, "of other nodes than there are")
}
