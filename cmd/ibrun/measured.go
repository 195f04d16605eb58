package main

import (
	"fmt"
	"strings"

	"ibrun/bootstrap/timing"
	"ibrun/internal/plural"
	"ibrun/job"
)

// measured puts the costs of earlier launches in place of the built-in ones,
// unless the user has named some.
func (p *plan) measured(r *request, costs timing.CostCache) {
	p.source = "built in"
	if strings.Contains(r.tree, ",") {
		p.source = "as --tree says"
		return
	}
	c, launches, ok := costs.Cost(launcherName(r.launch), p.site())
	if ok {
		p.shape.Cost, p.source = c, fmt.Sprintf("median of %s", plural.Of(launches, "measurement"))
	}
}

// site is the machines whose launches cost what this one's does: those of the last node.
func (p *plan) site() string { return timing.SiteOf(p.nodes.At(p.nodes.Len() - 1).Host) }

// timed gives the nodes of a launch their names. A spare that is up stands where
// the node stood whose seat it has.
func (p *plan) timed(root string, times []job.NodeTimes, missing uint32, spares map[uint32]string) *timing.Launch {
	l := &timing.Launch{
		Root: root, Launcher: launcherName(p.job.Launch), Agents: p.nodes.Len(), Ranks: int(p.job.Size), Missing: int(missing),
		Shape: p.shape, Source: p.source,
	}
	for _, t := range times {
		host := p.nodes.At(int(t.Node)).Host
		if spare, ok := spares[t.Node]; ok && t.At[job.Launched] != job.Never {
			host = spare
		}
		l.Nodes = append(l.Nodes, timing.Node{Host: host, NodeTimes: t})
	}
	return l
}

// launcherName is by what sessions are made, as far as it matters for their cost.
func launcherName(how job.Launch) string {
	switch {
	case len(how.Exec) > 0:
		return strings.Join(how.Exec, " ")
	case how.Launcher == "ssh" && how.SSH == "exec":
		return "ssh as a program"
	}
	return how.Launcher
}
