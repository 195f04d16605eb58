package core

import (
	"fmt"
	"slices"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// replaceNode handles a failed session to the first node of f. A spare replaces this node, or the job continues without
// it. A new child is added for the nodes of f that remain. replaceNode returns false if the job cannot continue.
func (c *Core) replaceNode(f wire.Fault) bool {
	s, p := c.recovery.Members(), c.cfg.Policy
	first := int(f.Node - s.All.First)
	if c.stage != launching || f.Node < s.All.First || first+int(f.Nodes) > s.All.Nodes.Len() || f.Nodes == 0 {
		return false
	}
	part, t, then := s.All.Slice(first, first+int(f.Nodes)), tried{spare: true}, ""
	run, spare := s.TakeSpare(f.Node)
	switch {
	case spare:
		run.Ranks = part.Nodes.At(0).Ranks
		rest := part.Nodes.Slice(1, part.Nodes.Len())
		part.Nodes = job.NewNodes(part.Nodes.Base(), slices.Concat([]job.Run{run}, rest.Runs()))
		then = fmt.Sprintf("spare %s takes its place", run.Host(0))
	case p.MinNodes > 0 && s.All.Nodes.Len()-len(s.Dropped) > p.MinNodes:
		s.Dropped = append(s.Dropped, f.Node)
		part, t = part.Slice(1, part.Nodes.Len()), tried{}
		left := s.All.Nodes.Len() - len(s.Dropped)
		then = fmt.Sprintf("the job goes on with %d of %d nodes", left, s.All.Nodes.Len())
	default:
		return false
	}
	c.reportToUser(rankwire.Notice{Host: c.cfg.Host, Text: fmt.Sprintf("%s could not be started from %s (%s: %s); %s", f.Host, f.Parent, f.Phase, f.Cause, then)})
	if part.Nodes.Len() > 0 {
		c.addBranch(part, t, child.Waiting)
	}
	return true
}

// applyMembership starts the ranks of this subtree. m is the final decision about the nodes of the job.
func (c *Core) applyMembership(m wire.Membership) {
	if c.stage != running {
		return // the job has ended in the meantime
	}
	c.renumber(m)
	c.sendDown(m)
	if !c.cfg.Root {
		c.fork()
	}
}

// renumber numbers the nodes and ranks of the job consecutively, after nodes were dropped.
func (c *Core) renumber(m wire.Membership) {
	j := *c.job
	j.FirstHost, j.Hosts = m.FirstHost, m.Hosts
	c.job = &j
	if m.Dropped.Len() == 0 {
		return
	}
	before := job.NodeIndex(0)
	dropped := slices.Collect(m.Dropped.All())
	for _, d := range dropped {
		j.Layout = j.Layout.Without(d.First-before, d.Count)
		before += job.NodeIndex(d.Count)
	}
	c.below.Layout = j.Layout
	j.Nodes, j.Size = j.Layout.Nodes(), j.Layout.Ranks()
	j.Programs = slices.Clone(j.Programs)
	j.Programs[0].Count = j.Size // a job whose nodes may be dropped has one program
	move := func(p job.Part) job.Part {
		for _, d := range slices.Backward(dropped) {
			if d.First < p.First {
				p.First -= job.NodeIndex(d.Count)
			}
		}
		first, _ := j.Layout.SlotsOn(p.First)
		p.Nodes = p.Nodes.From(first)
		return p
	}
	for i := range c.children {
		k := &c.children[i]
		if len(k.part) == 0 {
			continue // its session failed, and its node may be one that is dropped
		}
		k.head = move(k.head)
		k.moveBelow(move)
		var parts job.Parts
		for _, p := range k.part {
			parts = parts.Add(move(p))
		}
		k.before, k.part = k.part, parts
	}
	if r := &c.ranks; !c.cfg.Root {
		own := move(job.Part{First: r.index, Nodes: job.NewNodes(0, []job.Run{{Count: 1, Ranks: c.below.Own.Count()}})})
		r.index, r.node.First = own.First, own.Nodes.Base()
		c.below.Own.Renumber(r.node.First)
	}
	c.below.Route(c.partsOf)
}

// dropRanks records that the ranks of this node have ended with the status NotRun, unless they were started.
func (c *Core) dropRanks() {
	r, own := &c.ranks, &c.below.Own
	if c.starts.ranks != unforked || own.Count() == 0 {
		return
	}
	r.ends = append(r.ends, job.StatusRun{First: own.First(), Count: own.Count(), Status: job.Status{Kind: job.NotRun}})
	c.doLookups(c.lookups.Dropped())
	own.Drop()
	r.locals = nil
}
