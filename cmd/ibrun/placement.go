package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ibrun/internal/option"
	"ibrun/job"
)

// placeOptions put ranks on nodes and processors. This version fills nodes in
// order and binds nothing: what asks for binding is warned of, and what would
// put ranks on other nodes is refused.
var placeOptions = []knob{
	{names: "c cpus-per-task cores-per-task", takes: value, set: func(r *request, v string) error {
		var n uint64
		if err := count(&n, v, 1<<16); err != nil {
			return err
		}
		if n > 1 && r.word != "++ppn" {
			r.warn("%s %s: %s", r.word, v, noBinding)
		}
		return nil
	}},
	{names: "map-by", takes: value, set: mapBy},
	{names: "rank-by", takes: value, set: func(r *request, v string) error {
		if v == "node" {
			return otherNodes
		}
		return r.later(v, noBinding, "slot", "fill", "span", "hwthread", "core", "l1cache", "l2cache", "l3cache", "numa", "socket", "package")
	}},
	{names: "bind-to", takes: value, set: func(r *request, v string) error {
		word, more, _ := strings.Cut(v, ":")
		if more != "" && more != "overload-allowed" && more != "if-supported" {
			return fmt.Errorf("%s is not known", option.Quote(more))
		}
		if strings.HasSuffix(r.word, "_affinity") {
			r.warn("%s: %s", r.word, noBinding)
			return nil
		}
		return r.later(word, noBinding, "none", "hwthread", "core", "l3cache", "numa", "socket", "package", "auto")
	}},
	{names: "cpu-bind", takes: value, set: cpuBind},
	{names: "distribution m", takes: value, set: distribution},
	{names: "report-bindings", later: noReport},
}

var otherNodes = errors.New("ranks go to the nodes in blocks in this version; order the hosts as you want the blocks, and leave the option out")

// mapBy checks slot, core, ppr:N:obj and the like, with their modifiers.
// ppr:N:node is so many ranks per node, which this version does.
func mapBy(r *request, v string) error {
	parts := strings.Split(v, ":")
	object, rest := parts[0], parts[1:]
	if object == "ppr" {
		if len(rest) < 2 {
			return fmt.Errorf("%s: write ppr:N:node", option.Quote(v))
		}
		if rest[1] != "node" {
			return fmt.Errorf("%s needs the nodes' topology, which is not in this version yet: write ppr:N:node or -ppn N", option.Quote(v))
		}
		if err := r.setPerNode(rest[0]); err != nil {
			return err
		}
		rest = rest[2:]
	} else if object == "node" {
		return otherNodes
	} else if object != "" {
		if err := r.later(object, noBinding, "slot", "hwthread", "core", "l3cache", "numa", "socket", "package"); err != nil {
			return err
		}
	}
	for _, m := range rest {
		name, n, _ := strings.Cut(strings.ToUpper(m), "=")
		switch name {
		case "PE":
			var pe uint64
			if err := count(&pe, n, 1<<16); err != nil {
				return err
			}
			if pe > 1 {
				r.warn("%s %s: %s", r.word, printable(v), noBinding)
			}
		case "OVERSUBSCRIBE":
			r.crowd = true
		case "NOLOCAL":
			r.noLocal = true
		case "NOOVERSUBSCRIBE":
		case "SPAN":
			return otherNodes
		default:
			return fmt.Errorf("modifier %s is not known: write PE=n, SPAN, OVERSUBSCRIBE or NOLOCAL", option.Quote(m))
		}
	}
	return nil
}

func cpuBind(r *request, v string) error {
	v = strings.TrimPrefix(strings.TrimPrefix(v, "verbose,"), "quiet,")
	word, list, has := strings.Cut(v, ":")
	if word == "map_cpu" || word == "mask_cpu" {
		for _, cpu := range strings.Split(list, ",") {
			base := 0
			if word == "mask_cpu" {
				base, cpu = 16, strings.TrimPrefix(cpu, "0x")
			}
			if _, err := strconv.ParseUint(cpu, base, 64); err != nil && (base == 0 || strings.Trim(cpu, "0123456789abcdefABCDEF") != "" || cpu == "") {
				return fmt.Errorf("%s is not a list of processors: write map_cpu:0,2 or mask_cpu:0x3,0xc", option.Quote(v))
			}
		}
		r.warn("%s %s: %s", r.word, word, noBinding)
		return nil
	}
	if has {
		return fmt.Errorf("%s is not known: write none, cores, sockets, threads, map_cpu:LIST or mask_cpu:LIST", option.Quote(v))
	}
	if v == "no" {
		v = "none"
	}
	return r.later(v, noBinding, "none", "cores", "sockets", "threads")
}

// distribution checks srun's -m: the first word is about nodes, the others
// about what is inside them.
func distribution(r *request, v string) error {
	nodes, inside, _ := strings.Cut(v, ":")
	nodes, _, _ = strings.Cut(nodes, ",")
	if n, ok := strings.CutPrefix(nodes, "plane="); ok {
		var size uint64
		if err := count(&size, n, job.MaxRanks); err != nil {
			return err
		}
		return otherNodes
	}
	switch nodes {
	case "cyclic":
		return otherNodes
	case "block", "*":
	default:
		return fmt.Errorf("%s is not known: write block, cyclic or plane=N", option.Quote(v))
	}
	for _, w := range strings.Split(inside, ":") {
		if !slices.Contains([]string{"", "block", "cyclic", "fcyclic", "*"}, w) {
			return fmt.Errorf("%s is not known: write block, cyclic or fcyclic", option.Quote(w))
		}
	}
	if inside != "" {
		r.warn("%s %s: %s", r.word, v, noBinding)
	}
	return nil
}
