package main

import (
	"fmt"
	"slices"
	"strings"

	"ibrun/internal/cpuset"
	"ibrun/internal/option"
	"ibrun/job"
)

// placeOptions put ranks on nodes, processors and devices. docs/placement.md
// has the rules.
var placeOptions = []knob{
	{names: "c cpus-per-task cores-per-task", takes: value, set: func(r *request, v string) error { return r.setPE(v) }},
	{names: "map-by", takes: value, set: mapBy},
	{names: "rank-by", takes: value, set: func(r *request, v string) error {
		switch v {
		case "fill":
			r.binding.Fill = true
		case "node":
			return r.setPlane(1)
		case "slot", "span", "hwthread", "core", "l1cache", "l2cache", "l3cache", "numa", "socket", "package":
		default:
			return fmt.Errorf("%s is not known: write slot, fill, span or node", option.Quote(v))
		}
		return nil
	}},
	{names: "bind-to", takes: value, set: func(r *request, v string) error {
		word, more, _ := strings.Cut(v, ":")
		switch more {
		case "overload-allowed":
			r.binding.Overload = true
		case "", "if-supported":
		default:
			return fmt.Errorf("%s is not known", option.Quote(more))
		}
		return object(&r.binding.Bind, word)
	}},
	{names: "cpu-bind", takes: value, set: cpuBind},
	{names: "distribution m", takes: value, set: distribution},
	{names: "report-bindings", set: on(func(r *request) *bool { return &r.binding.Report })},
	{names: "topo-input", takes: value, set: func(r *request, v string) error { r.topoInput = v; return nil }},
	{names: "capture", takes: value, set: func(r *request, v string) error { r.action, r.capture = makeCapture, v; return nil }},
	{names: "json", set: on(func(r *request) *bool { return &r.binding.Data })},
}

// objectNames are the words for what a rank can be placed by or bound to.
var objectNames = map[string]job.Object{
	"auto": job.Unsaid, "none": job.Unbound, "hwthread": job.HWThread, "core": job.Core, "l3cache": job.L3, "numa": job.NUMA,
	"socket": job.Package, "package": job.Package,
}

func object(to *job.Object, word string) error {
	o, ok := objectNames[word]
	if !ok {
		return fmt.Errorf("%s is not known: write none, hwthread, core, l3cache, numa, socket, package or auto", option.Quote(word))
	}
	*to = o
	return nil
}

func (r *request) setPE(v string) error {
	var n uint64
	if err := count(&n, v, cpuset.Max); err != nil {
		return err
	}
	if pe := r.binding.PE; pe != 0 && uint64(pe) != n {
		return fmt.Errorf("%d cores per rank contradict %d", n, pe)
	}
	r.binding.PE = uint32(n)
	return nil
}

// setPlane deals ranks to nodes, so many at a time.
func (r *request) setPlane(n uint64) error {
	if r.plane != 0 && r.plane != n {
		return fmt.Errorf("ranks cannot be dealt by %d and by %d", n, r.plane)
	}
	r.plane = n
	return nil
}

// mapBy obeys slot, core, ppr:N:obj and the like, with their modifiers.
func mapBy(r *request, v string) error {
	parts := strings.Split(v, ":")
	word, rest := parts[0], parts[1:]
	switch {
	case word == "ppr":
		if len(rest) < 2 {
			return fmt.Errorf("%s: write ppr:N:node or ppr:N:package", option.Quote(v))
		}
		if err := r.perObject(rest[0], rest[1]); err != nil {
			return err
		}
		rest = rest[2:]
	case word == "node":
		if err := r.setPlane(1); err != nil {
			return err
		}
	case word == "load":
		r.byLoad = true
	case word == "slot" || word == "":
	default:
		if err := object(&r.binding.Map, word); err != nil || r.binding.Map <= job.Unbound {
			return fmt.Errorf("%s is not known: write slot, node, load, hwthread, core, l3cache, numa, package or ppr:N:obj", option.Quote(word))
		}
	}
	for _, m := range rest {
		name, n, _ := strings.Cut(strings.ToUpper(m), "=")
		switch name {
		case "PE":
			if err := r.setPE(n); err != nil {
				return err
			}
		case "OVERSUBSCRIBE":
			r.crowd, r.binding.Overload = true, true
		case "NOLOCAL":
			r.noLocal = true
		case "NOOVERSUBSCRIBE":
		case "SPAN":
			r.span = true
		default:
			return fmt.Errorf("modifier %s is not known: write PE=n, SPAN, OVERSUBSCRIBE or NOLOCAL", option.Quote(m))
		}
	}
	return nil
}

// perObject is ppr:N:obj: so many ranks per node, or on each object of a node.
func (r *request) perObject(n, word string) error {
	if word == "node" {
		return r.setPerNode(n)
	}
	var per uint64
	if err := count(&per, n, job.MaxRanks); err != nil {
		return err
	}
	if err := object(&r.binding.Map, word); err != nil || r.binding.Map <= job.Unbound {
		return fmt.Errorf("%s is not known: write node, hwthread, core, l3cache, numa or package", option.Quote(word))
	}
	r.binding.PerObj = uint32(per)
	return nil
}

func cpuBind(r *request, v string) error {
	if more, ok := strings.CutPrefix(v, "verbose,"); ok {
		v, r.binding.Report = more, true
	}
	v = strings.TrimPrefix(v, "quiet,")
	word, list, has := strings.Cut(v, ":")
	if word == "map_cpu" || word == "mask_cpu" {
		parse := cpuset.ParseList
		if word == "mask_cpu" {
			parse = cpuset.ParseMask
		}
		for _, part := range strings.Split(list, ",") {
			s, err := parse(part)
			if err != nil || s.Empty() || word == "map_cpu" && s.Len() > 1 {
				return fmt.Errorf("%s is not a list of processors: write map_cpu:0,2 or mask_cpu:0x3,0xc", option.Quote(v))
			}
			r.binding.CPUs = append(r.binding.CPUs, s.String())
		}
		return nil
	}
	o, ok := map[string]job.Object{
		"none": job.Unbound, "no": job.Unbound, "cores": job.Core, "sockets": job.Package, "threads": job.HWThread, "ldoms": job.NUMA,
	}[v]
	if has || !ok {
		return fmt.Errorf("%s is not known: write none, cores, sockets, threads, ldoms, map_cpu:LIST or mask_cpu:LIST", option.Quote(v))
	}
	r.binding.Bind = o
	return nil
}

// distribution obeys srun's -m: the first word is about nodes, the others
// about what is inside them.
func distribution(r *request, v string) error {
	nodes, inside, _ := strings.Cut(v, ":")
	nodes, _, _ = strings.Cut(nodes, ",")
	plane := uint64(0)
	if n, ok := strings.CutPrefix(nodes, "plane="); ok {
		if err := count(&plane, n, job.MaxRanks); err != nil {
			return err
		}
		nodes = "plane"
	}
	switch nodes {
	case "cyclic":
		plane = 1
	case "plane", "block", "*":
	default:
		return fmt.Errorf("%s is not known: write block, cyclic or plane=N", option.Quote(v))
	}
	words := strings.Split(inside, ":")
	for _, w := range words {
		if !slices.Contains([]string{"", "block", "cyclic", "fcyclic", "*"}, w) {
			return fmt.Errorf("%s is not known: write block, cyclic or fcyclic", option.Quote(w))
		}
	}
	switch words[0] {
	case "block":
		r.binding.Map = job.Core
	case "cyclic", "fcyclic":
		r.binding.Map = job.Package
	}
	if plane == 0 {
		return nil
	}
	return r.setPlane(plane)
}
