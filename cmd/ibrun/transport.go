package main

import (
	"fmt"
	"slices"
	"strings"

	"ibrun/internal/option"
	"ibrun/job"
)

// fabricOptions say how ranks that use the package ibrun reach each other.
var fabricOptions = []knob{
	{names: "fabric", takes: value, set: func(r *request, v string) error {
		if r.fabric = v; v == "ib" {
			r.warn("--fabric ib: %s", noIB)
			return nil
		}
		return oneOf(v, "auto", "ib", "udp", "tcp")
	}},
	{names: "lazy", takes: optional, set: func(r *request, v string) error {
		if r.lazy = v; v == "" {
			r.lazy = "on"
		}
		return oneOf(r.lazy, "auto", "on", "off")
	}},
	{names: "eager", set: on(func(r *request) *bool { return &r.eager })},
	{names: "iface", takes: value, set: func(r *request, v string) error { r.iface = v; return plainWord(r, strings.ReplaceAll(v, "/", "")) }},
	{names: "hca", takes: value, set: func(r *request, v string) error { r.binding.HCA = v; return plainWord(r, v) }},
	{names: "stats", takes: optional, set: func(r *request, v string) error {
		if r.stats = v; v == "" {
			r.stats = "text"
		}
		return oneOf(r.stats, "text", "json")
	}},
}

func oneOf(v string, known ...string) error {
	if !slices.Contains(known, v) {
		return fmt.Errorf("%s is not known: write one of %v", option.Quote(v), known)
	}
	return nil
}

// eagerNodes is the number of nodes up to which --lazy=auto sends the whole
// table: there a program that needs all of it is served better, and one that
// needs little loses little (docs/decisions/0005-when-eager.md has the
// measurement).
const eagerNodes = 16

// transport decides how ranks find each other.
func (r *request) transport(nodes int) job.Transport {
	t := job.Transport{Fabric: "udp", Iface: r.iface, Stats: r.stats != "", Tell: r.verbose > 0}
	if r.fabric == "tcp" {
		t.Fabric = "tcp"
	}
	switch {
	case r.eager || r.lazy == "off":
		t.Eager, t.Why = true, "as asked for"
	case r.lazy == "on":
		t.Why = "as asked for"
	case nodes == 1:
		t.Why = "one node, so there is nothing to look up"
	case nodes <= eagerNodes:
		t.Eager, t.Why = true, fmt.Sprintf("%d nodes: up to %d, the whole table is cheaper than look-ups", nodes, eagerNodes)
	default:
		t.Learn, t.Why = true, fmt.Sprintf("%d nodes: above %d, look-ups are cheaper than the whole table", nodes, eagerNodes)
	}
	return t
}
