package main

import (
	"fmt"
	"net/netip"
	"strings"

	"ibrun/internal/exit"
	"ibrun/internal/plural"
	"ibrun/job"
)

func (p *plan) warn(text string) {
	if text != "" {
		p.warnings = append(p.warnings, text)
	}
}

// leaveOut takes out of an allocation what --exclude and --nolocal name.
func (p *plan) leaveOut(r *request, from *allocation, at surroundings) error {
	gone, found, total := map[string]bool{}, map[string]bool{}, uint64(0)
	for _, e := range r.exclude {
		if total += uint64(e.Count); total > job.MaxNodes {
			return exit.Usagef("--exclude names more than %d hosts", job.MaxNodes)
		}
		for i := range e.Count {
			gone[job.Run{Prefix: e.Prefix, Suffix: e.Suffix, Width: uint8(e.Width), Lo: e.Lo, Count: 1}.Host(i)] = true
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
		for _, e := range r.exclude {
			if e.Count == 1 && !found[job.Run{Prefix: e.Prefix, Suffix: e.Suffix, Width: uint8(e.Width), Lo: e.Lo}.Host(0)] {
				p.warn(fmt.Sprintf("--exclude %s: no such host in the list", job.Run{Prefix: e.Prefix, Suffix: e.Suffix, Width: uint8(e.Width), Lo: e.Lo}.Host(0)))
			}
		}
		if err != nil {
			return err
		}
	}
	if !r.noLocal {
		return nil
	}
	self := map[string]bool{}
	for _, name := range ownNames(at) {
		self[name] = true
	}
	return from.without("--nolocal", func(h string) bool { return self[h] })
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
func (p *plan) holdBack(r *request, from *allocation, at surroundings) error {
	left := from.all.Len() - int(r.spares)
	if r.spares == 0 {
		return nil
	}
	if left < 1 {
		return exit.Usagef("--spares %d of %s leaves none to run on: name more hosts", r.spares, plural.Of(from.all.Len(), "host"))
	}
	p.policy.Spares = from.all.Slice(left, from.all.Len())
	if i := thisMachine(p.policy.Spares, at); i >= 0 && r.launch.Launcher != "local" {
		p.policy.SpareHere = p.policy.Spares.At(i).Host
	}
	from.all = from.all.Slice(0, left)
	from.lists = []job.Nodes{from.all} // finish has seen to it that there is one
	return nil
}

// fewer checks --min-nodes against the plan.
func (p *plan) fewer(r *request) error {
	switch {
	case r.minNodes == 0:
		return nil
	case r.minNodes > uint64(p.nodes.Len()):
		return exit.Usagef("--min-nodes %d: the job has %s", r.minNodes, plural.Of(p.nodes.Len(), "node"))
	case len(r.segments) > 1 || r.segments[0].multi:
		return exit.Usagef("--min-nodes: with several programs it cannot be said whose ranks may be missing; use --spares")
	case r.plane > 0 || r.span || p.plane > 0 || r.rankFile != "":
		return exit.Usagef("--min-nodes needs ranks that are placed node by node: leave --map-by node, --rank-by, :SPAN and --distribution out, or use --spares")
	}
	p.policy.MinNodes = int(r.minNodes)
	return nil
}

// shortName is a host's name without its domain; an address has none.
func shortName(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	short, _, _ := strings.Cut(host, ".")
	return short
}

// ownNames are the names that cannot mean another machine.
func ownNames(at surroundings) []string {
	return []string{at.host, shortName(at.host), "localhost", "127.0.0.1", "::1"}
}

// thisMachine is the first node that is this very machine, which needs no
// remote shell, or -1. Nothing is resolved.
func thisMachine(n job.Nodes, at surroundings) int {
	best := -1
	for _, name := range ownNames(at) {
		i := n.Index(name)
		if i >= 0 && (best < 0 || i < best) && (n.At(i).User == "" || n.At(i).User == at.user) {
			best = i
		}
	}
	return best
}

// files refuses patterns by which ranks would overwrite each other's output.
func (p *plan) files(r *request) error {
	most := uint32(0)
	for _, run := range p.nodes.Runs() {
		most = max(most, run.Ranks)
	}
	for option, file := range map[string]string{"--output": r.output.StdoutFile, "--error": r.output.StderrFile} {
		if collides(file, p.job.Size, most) {
			return exit.Usagef("%s %s: %d ranks would overwrite one file; write %%r for the rank into its name, or send ibrun's own output to a file with >", option, file, p.job.Size)
		}
	}
	return nil
}
