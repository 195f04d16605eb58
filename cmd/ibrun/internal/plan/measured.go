package plan

import (
	"fmt"
	"strings"

	"ibrun/bootstrap/tree"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// measured puts the costs of earlier launches in place of the built-in ones,
// unless the user has named some.
func (p *Plan) measured(shape string, how job.LaunchOptions, costs func() tree.CostCache) {
	p.Source = "built in"
	switch {
	case strings.Contains(shape, ","):
		p.Source = "as --tree says"
		return
	case costs == nil || p.Here == 0 && p.Nodes.Len() == 1:
		return // no session is made
	}
	c, launches, ok := costs().Cost(launcherName(how), p.Site())
	if ok {
		p.Shape.Cost, p.Source = c, fmt.Sprintf("median of %s", plain.Plural(launches, "measurement"))
	}
}

// Site is the machines whose launches cost what this one's does: those of the last node.
func (p *Plan) Site() string { return tree.SiteOf(p.Nodes.At(p.Nodes.Len() - 1).Host) }

// Timed gives the nodes of a launch their names. A spare that is up stands in
// the place of the node that it replaces.
func (p *Plan) Timed(
	root string, times []job.NodeTimes, missing uint32, spares map[job.NodeIndex]string,
) *tree.Launch {
	l := &tree.Launch{
		Root: root, Launcher: launcherName(p.Job.Launch), Agents: p.Nodes.Len(),
		Ranks: int(p.Job.Size), Missing: int(missing),
		Shape: p.Shape, Source: p.Source,
	}
	for _, t := range times {
		host := p.Nodes.At(int(t.Node)).Host
		if spare, ok := spares[t.Node]; ok && t.At[job.LaunchSent] != job.Never {
			host = spare
		}
		l.Nodes = append(l.Nodes, tree.Node{Host: host, NodeTimes: t})
	}
	return l
}

// launcherName is by what sessions are made, as far as it matters for their cost.
func launcherName(how job.LaunchOptions) string {
	switch {
	case len(how.Exec) > 0:
		return strings.Join(how.Exec, " ")
	case how.Launcher == "ssh" && how.SSH == "exec":
		return "ssh as a program"
	}
	return how.Launcher
}
