package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"ibrun/internal/cpuset"
	"ibrun/internal/job"
)

// placeOptions put ranks on nodes, processors and devices. docs/placement.md
// has the rules.
var placeOptions = []option{
	{names: "c cpus-per-task cores-per-task", takes: value, set: (*Request).setPE},
	{names: "map-by", takes: value, set: mapBy},
	{names: "rank-by", takes: value, set: rankBy,
		words: []string{"slot", "fill", "node", "span", "hwthread", "core", "l3cache", "numa", "socket", "package"}},
	{names: "bind-to", takes: value, set: func(r *Request, v string) error {
		word, more, _ := strings.Cut(v, ":")
		switch more {
		case "overload-allowed":
			r.Binding.Overload = true
		case "", "if-supported":
		default:
			return fmt.Errorf("%s is not known", Quote(more))
		}
		return object(&r.Binding.Bind, word)
	}},
	{names: "cpu-bind", takes: value, set: cpuBind},
	{names: "distribution m", takes: value, set: distribution},
	{names: "report-bindings", set: on(func(r *Request) *bool { return &r.Binding.Report })},
	{names: "topo-input", takes: value, set: func(r *Request, v string) error { r.TopoInput = v; return nil }},
	{names: "capture", takes: value,
		set: func(r *Request, v string) error { r.Action, r.Capture = MakeCapture, v; return nil }},
	{names: "json", set: on(func(r *Request) *bool { return &r.Binding.Data })},
}

// objectNames are the words for what a rank can be placed by or bound to.
var objectNames = map[string]job.Object{
	"auto": job.NotGiven, "none": job.Unbound, "hwthread": job.HWThread, "core": job.Core,
	"l3cache": job.L3, "numa": job.NUMA,
	"socket": job.Package, "package": job.Package,
}

func object(to *job.Object, word string) error {
	o, ok := objectNames[word]
	if !ok {
		return fmt.Errorf("%s is not known: write none, hwthread, core, l3cache, numa, socket, package or auto",
			Quote(word))
	}
	return decide(to, o)
}

// decide stores o in *to. The value o is the kind of object, such as a core, by which ranks are placed or to which
// ranks are bound. If an earlier option has stored a different kind, decide returns an error.
func decide(to *job.Object, o job.Object) error {
	return agree(to, o, "%s contradicts %s, which another option says")
}

// Numbering is in which order ranks are numbered over the nodes.
type Numbering struct {
	Set   bool
	Plane uint64 // nodes take turns, so many ranks at a time; 0: one node after the other
	Span  bool   // the objects of Map take turns, of all nodes
}

// numberBy says how ranks are numbered, which is as they are dealt to nodes if nobody says so.
func (r *Request) numberBy(n Numbering) error {
	n.Set = true
	if r.Numbering.Set && r.Numbering != n {
		return errors.New("two options number the ranks, each in another way: write one of them")
	}
	r.Numbering = n
	return nil
}

func rankBy(r *Request, v string) error {
	n := Numbering{}
	switch v {
	case "slot":
	case "fill":
		r.Binding.Fill = true
	case "node":
		n.Plane = 1
	case "span":
		n.Span = true
	default:
		r.Binding.Rank = objectNames[v]
	}
	return r.numberBy(n)
}

func (r *Request) setPE(v string) error {
	var n uint32
	if err := SetCount(&n, v, cpuset.Max); err != nil {
		return err
	}
	return agree(&r.Binding.PE, n, "%d cores per rank contradict %d")
}

// setPlane sets r.Plane, so that each node in turn gets n consecutive ranks. If n is 0, setPlane changes nothing.
func (r *Request) setPlane(n uint64) error {
	return agree(&r.Plane, n, "ranks cannot be dealt by %d and by %d")
}

// mapBy obeys slot, core, ppr:N:obj and the like, with their modifiers.
func mapBy(r *Request, v string) error {
	parts := strings.Split(v, ":")
	word, rest := parts[0], parts[1:]
	switch {
	case word == "ppr":
		if len(rest) < 2 {
			return fmt.Errorf("%s: write ppr:N:node or ppr:N:package", Quote(v))
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
		r.ByLoad = true
	case word == "slot" || word == "":
	default:
		if objectNames[word] <= job.Unbound {
			return fmt.Errorf("%s is not known: write slot, node, load, hwthread, core, l3cache, numa, package or "+
				"ppr:N:obj", Quote(word))
		}
		if err := decide(&r.Binding.Map, objectNames[word]); err != nil {
			return err
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
			r.Oversubscribe, r.Binding.Overload = true, true
		case "NOLOCAL":
			r.NoLocal = true
		case "NOOVERSUBSCRIBE":
			r.NoOversubscribe = true
		case "SPAN":
			r.Evenly = true
		default:
			return fmt.Errorf("modifier %s is not known: write PE=n, SPAN, OVERSUBSCRIBE, NOOVERSUBSCRIBE or NOLOCAL",
				Quote(m))
		}
	}
	return nil
}

// perObject is ppr:N:obj: so many ranks per node, or on each object of a node.
func (r *Request) perObject(n, word string) error {
	if word == "node" {
		return r.setPerNode(n)
	}
	if err := SetCount(&r.Binding.PerObj, n, job.MaxRanks); err != nil {
		return err
	}
	if objectNames[word] <= job.Unbound {
		return fmt.Errorf("%s is not known: write node, hwthread, core, l3cache, numa or package", Quote(word))
	}
	return decide(&r.Binding.Map, objectNames[word])
}

// cpuBindNames are srun's words for what a rank can be bound to.
var cpuBindNames = map[string]job.Object{
	"none": job.Unbound, "no": job.Unbound, "cores": job.Core, "sockets": job.Package,
	"threads": job.HWThread, "ldoms": job.NUMA,
}

func cpuBind(r *Request, v string) error {
	if more, ok := strings.CutPrefix(v, "verbose,"); ok {
		v, r.Binding.Report = more, true
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
				return fmt.Errorf("%s is not a list of processors: write map_cpu:0,2 or mask_cpu:0x3,0xc",
					Quote(v))
			}
			r.Binding.CPUs = append(r.Binding.CPUs, s.String())
		}
		return nil
	}
	o, ok := cpuBindNames[v]
	if has || !ok {
		return fmt.Errorf("%s is not known: write none, cores, sockets, threads, ldoms, map_cpu:LIST or mask_cpu:LIST",
			Quote(v))
	}
	return decide(&r.Binding.Bind, o)
}

// distribution obeys srun's -m: the first word is about nodes, the second about the packages of a
// node. The third, about the cores of a package, has nothing to say where a rank gets whole cores.
func distribution(r *Request, v string) error {
	v, pack, _ := strings.Cut(v, ",")
	words := strings.Split(v, ":")
	if len(words) > 3 {
		return fmt.Errorf("%s has more than three words", Quote(v))
	}
	for len(words) < 3 {
		words = append(words, "*")
	}
	if err := r.distributeNodes(words[0], pack); err != nil {
		return err
	}
	inside, third := words[1], words[2]
	for _, w := range words[1:] {
		if !slices.Contains([]string{"block", "cyclic", "fcyclic", "*"}, w) {
			return fmt.Errorf("%s is not known: write block, cyclic or fcyclic", Quote(w))
		}
	}
	if third != "*" && third != inside {
		return fmt.Errorf("the third word, %s, is about the cores of a package: a rank gets whole cores here, so "+
			"leave it out or write --map-by hwthread", third)
	}
	switch inside {
	case "block":
		return decide(&r.Binding.Map, job.Core)
	case "cyclic", "fcyclic":
		r.scatter = inside == "fcyclic"
		return decide(&r.Binding.Map, job.Package)
	}
	return nil
}

// distributeNodes obeys the first word of -m, and what follows its comma.
func (r *Request) distributeNodes(word, pack string) error {
	plane := uint64(0)
	if n, ok := strings.CutPrefix(word, "plane="); ok {
		if err := SetCount(&plane, n, job.MaxRanks); err != nil {
			return err
		}
		word = "plane"
	}
	switch word {
	case "cyclic":
		plane = 1
	case "plane", "block", "*":
	default:
		return fmt.Errorf("%s is not known: write block, cyclic or plane=N", Quote(word))
	}
	switch pack = strings.ToLower(pack); {
	case pack == "" || pack == "pack" && plane == 0: // nodes are filled in order
	case pack == "nopack" && plane == 0:
		r.Evenly = true
	case pack == "nopack" && plane == 1: // nodes have their turns
	default:
		return fmt.Errorf("%s after %s is not done: leave it out", Quote(pack), Quote(word))
	}
	if word == "*" {
		return nil
	}
	if err := r.numberBy(Numbering{Plane: plane}); err != nil {
		return err
	}
	return r.setPlane(plane)
}
