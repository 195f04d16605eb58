package plan

import (
	"fmt"
	"slices"
	"strings"

	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/internal/exit"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

func (p *Plan) Warn(text string) {
	if text != "" {
		p.Warnings = append(p.Warnings, text)
	}
}

// leaveOut takes out of an allocation what --exclude and --nolocal name.
func (p *Plan) leaveOut(r *cli.Request, from *allocation, at Surroundings) error {
	gone, found, total := map[string]bool{}, map[string]bool{}, uint64(0)
	for _, e := range r.Exclude {
		if total += uint64(e.Count); total > job.MaxNodes {
			return exit.Usagef("--exclude names more than %d hosts", job.MaxNodes)
		}
		for i := range e.Count {
			gone[runOf(e).Host(i)] = true
		}
	}
	if len(gone) > 0 {
		err := from.without("--exclude", func(h string) bool {
			for _, name := range []string{h, shortName(h)} {
				if gone[name] {
					found[name] = true
					return true
				}
			}
			return false
		})
		for _, e := range r.Exclude {
			if name := runOf(e).Host(0); e.Count == 1 && !found[name] {
				p.Warn(fmt.Sprintf("--exclude %s: no such host in the list", name))
			}
		}
		if err != nil {
			return err
		}
	}
	if !r.NoLocal {
		return nil
	}
	self := ownNames(at)
	return from.without("--nolocal", func(h string) bool { return slices.Contains(self, h) })
}

// without takes hosts out of all lists.
func (a *allocation) without(option string, drop func(host string) bool) error {
	for i, list := range a.lists {
		if a.lists[i] = list.Without(drop); a.lists[i].Len() == 0 && len(a.lists) == 1 {
			return exit.Usagef("%s leaves no host", option)
		} else if a.lists[i].Len() == 0 {
			return exit.Usagef("%s leaves no host to program %d", option, i)
		}
	}
	a.all = job.Union(a.lists)
	return nil
}

// holdBack takes the spares from the end of an allocation.
func (p *Plan) holdBack(r *cli.Request, from *allocation, at Surroundings) error {
	left := from.all.Len() - int(r.Spares)
	if r.Spares == 0 {
		return nil
	}
	if left < 1 {
		return exit.Usagef("--spares %d of %s leaves none to run on: name more hosts", r.Spares,
			plain.Plural(from.all.Len(), "host"))
	}
	p.Policy.Spares = from.all.Slice(left, from.all.Len())
	if i := thisMachine(p.Policy.Spares, at); i >= 0 && r.Launch.Launcher != "local" {
		p.Policy.SpareHere = p.Policy.Spares.At(i).Host
	}
	from.all = from.all.Slice(0, left)
	from.lists = []job.Nodes{from.all} // finish has seen to it that there is one
	return nil
}

// fewer checks --min-nodes against the plan.
func (p *Plan) fewer(r *cli.Request) error {
	switch {
	case r.MinNodes == 0:
		return nil
	case r.MinNodes > uint64(p.Nodes.Len()):
		return exit.Usagef("--min-nodes %d: the job has %s", r.MinNodes, plain.Plural(p.Nodes.Len(), "node"))
	case len(r.Segments) > 1 || r.Segments[0].Multi:
		return exit.Usagef("--min-nodes: with several programs it cannot be said whose ranks may be missing; use " +
			"--spares")
	case r.Plane > 0 || r.Evenly || p.plane > 0 || r.RankFile != "":
		return exit.Usagef("--min-nodes needs ranks that are placed node by node: leave --map-by node, --rank-by, " +
			":SPAN and --distribution out, or use --spares")
	}
	p.Policy.MinNodes = int(r.MinNodes)
	return nil
}

// shortName is a host's name without its domain; an address has none.
func shortName(host string) string {
	if strings.Contains(host, ":") || strings.Trim(host, "0123456789.") == "" {
		return host
	}
	short, _, _ := strings.Cut(host, ".")
	return short
}

// ownNames are the names that cannot mean another machine.
func ownNames(at Surroundings) []string {
	return []string{at.Host, shortName(at.Host), "localhost", "127.0.0.1", "::1"}
}

// thisMachine is the first node that is this very machine, which needs no
// remote shell, or -1. Nothing is resolved.
func thisMachine(n job.Nodes, at Surroundings) int {
	best := -1
	for _, name := range ownNames(at) {
		i := n.Index(name)
		if i >= 0 && (best < 0 || i < best) && (n.At(i).User == "" || n.At(i).User == at.User) {
			best = i
		}
	}
	return best
}
