package core

import (
	"fmt"
	"slices"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// members is the root's record of the nodes that take part. A dead node is replaced by a
// spare, or dropped if the job may have fewer nodes, or ends the job. docs/dev/decisions/0013-late-binding.md.
type members struct {
	all      job.Part
	spares   job.Nodes                // that are left
	replaced map[job.NodeIndex]string // hosts of the spares, by the node that each replaces
	dropped  []job.NodeIndex
}

func (s *members) open(all job.Part) { s.all = all }

// replaceNode finds what becomes of the nodes of a session that failed; false: the
// job cannot go on. Only the first of them is dead.
func (c *Core) replaceNode(f wire.Fault) bool {
	s, p := &c.root.members, c.cfg.Policy
	first := int(f.Node - s.all.First)
	if c.stage != launching || f.Node < s.all.First || first+int(f.Nodes) > s.all.Nodes.Len() || f.Nodes == 0 {
		return false
	}
	part, t, then := s.all.Slice(first, first+int(f.Nodes)), tried{spare: true}, ""
	switch {
	case s.spares.Len() > 0:
		run := s.spares.Slice(0, 1).Runs()[0]
		s.spares = s.spares.Slice(1, s.spares.Len())
		run.Ranks = part.Nodes.At(0).Ranks
		rest := part.Nodes.Slice(1, part.Nodes.Len())
		part.Nodes = job.NewNodes(part.Nodes.Base(), slices.Concat([]job.Run{run}, rest.Runs()))
		if s.replaced == nil {
			s.replaced = map[job.NodeIndex]string{}
		}
		s.replaced[f.Node] = run.Host(0)
		then = fmt.Sprintf("spare %s takes its place", run.Host(0))
	case p.MinNodes > 0 && s.all.Nodes.Len()-len(s.dropped) > p.MinNodes:
		s.dropped = append(s.dropped, f.Node)
		part, t = part.Slice(1, part.Nodes.Len()), tried{}
		left := s.all.Nodes.Len() - len(s.dropped)
		then = fmt.Sprintf("the job goes on with %d of %d nodes", left, s.all.Nodes.Len())
	default:
		return false
	}
	c.reportToUser(rankwire.Notice{Host: c.cfg.Host, Text: fmt.Sprintf("%s could not be started from %s (%s: %s); %s", f.Host, f.Parent, f.Phase, f.Cause, then)})
	if part.Nodes.Len() > 0 {
		c.addBranch(part, t, child.Waiting)
	}
	return true
}

// membership is what ranks wait for.
func (s *members) membership(j *job.Job) wire.Membership {
	m := wire.Membership{FirstHost: j.FirstHost}
	slices.Sort(s.dropped)
	first, dropped := s.all.First, []wire.NodeSpan(nil)
	for _, node := range s.dropped {
		if node == first {
			first++
		}
		if last := len(dropped) - 1; last >= 0 && dropped[last].End() == node {
			dropped[last].Count++
			continue
		}
		dropped = append(dropped, wire.NodeSpan{First: node, Count: 1})
	}
	m.Dropped = wire.NewNodeSpans(dropped...)
	if j.Hosts != "" {
		m.Hosts = s.hosts()
	}
	if host, ok := s.replaced[first]; ok {
		m.FirstHost = host
	} else if first != s.all.First {
		m.FirstHost = s.all.Nodes.At(int(first - s.all.First)).Host
	}
	return m
}

// hosts are those of the nodes that take part, without gaps.
func (s *members) hosts() string {
	var runs []job.Run
	for i := range s.all.Nodes.Len() {
		node := s.all.First + job.NodeIndex(i)
		if _, gone := slices.BinarySearch(s.dropped, node); gone {
			continue
		}
		run := s.all.Nodes.Slice(i, i+1).Runs()[0]
		if host, ok := s.replaced[node]; ok {
			run = job.Run{Prefix: host, Count: 1, Ranks: run.Ranks}
		}
		runs = append(runs, run)
	}
	return job.NewNodes(0, runs).HostList()
}

// applyMembership lets the ranks of this subtree start: the nodes are certain.
func (c *Core) applyMembership(m wire.Membership) {
	if c.stage != running {
		return // it has ended meanwhile
	}
	c.renumber(m)
	c.sendDown(m)
	if !c.cfg.Root {
		c.fork()
	}
}

// renumber closes the gaps that dropped nodes leave.
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
	j.Programs[0].Count = j.Size // where nodes may be dropped, there is one
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

// dropRanks ends the ranks of this node that were never started.
func (c *Core) dropRanks() {
	r, own := &c.ranks, &c.below.Own
	if c.starts.begun || own.Count() == 0 {
		return
	}
	r.ends = append(r.ends, job.StatusRun{First: own.First(), Count: own.Count(), Status: job.Status{Kind: job.NotRun}})
	c.doLookups(c.lookups.Dropped())
	own.Drop()
	r.locals = nil
}
