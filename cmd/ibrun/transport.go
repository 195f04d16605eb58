package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ibrun/internal/cmdline"
	"ibrun/job"
)

// fabricOptions say how ranks that use the package ibrun reach each other.
var fabricOptions = []knob{
	{names: "fabric", takes: value, words: []string{"auto", "ib", "udp", "tcp"}, set: func(r *request, v string) error {
		r.fabric = v
		return nil
	}},
	{names: "sl", takes: value, set: func(r *request, v string) error {
		n, err := number(v, 0, job.MaxSL)
		r.sl = uint8(n)
		return err
	}},
	{names: "pkey", takes: value, set: func(r *request, v string) error {
		n, err := number(v, 1, 1<<16-1)
		r.pkey = uint16(n)
		return err
	}},
	{names: "gid-index", takes: value, set: func(r *request, v string) error {
		n, err := number(v, 0, 1<<8-2)
		r.gid = uint8(n + 1)
		return err
	}},
	{names: "poll", takes: value, words: []string{"events", "spin"}, set: func(r *request, v string) error {
		r.spin = v == "spin"
		return nil
	}},
	{names: "lazy", takes: optional, words: []string{"", "auto", "on", "off"}, set: func(r *request, v string) error {
		r.lazy = cmp.Or(v, "on")
		return nil
	}},
	{names: "eager", set: on(func(r *request) *bool { return &r.eager })},
	{names: "iface", takes: value, set: func(r *request, v string) error { r.iface = v; return plainWord(r, strings.ReplaceAll(v, "/", "")) }},
	{names: "hca", takes: value, set: func(r *request, v string) error { r.binding.HCA = v; return plainWord(r, v) }},
	{names: "stats", takes: optional, words: []string{"", "text", "json"}, set: func(r *request, v string) error {
		r.stats = cmp.Or(v, "text")
		return nil
	}},
}

// number reads a number within bounds, which may be written as 0x8001.
func number(v string, least, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(v, 0, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s is not a number from %d to %d", cmdline.Quote(v), least, most)
	}
	return n, nil
}

// oneOf refuses what is none of the words, if there are some. An empty one stands for an
// option without a value.
func oneOf(v string, words []string) error {
	if len(words) == 0 || slices.Contains(words, v) {
		return nil
	}
	shown := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
	last := len(shown) - 1
	return fmt.Errorf("%s is not known: write %s or %s", cmdline.Quote(v), strings.Join(shown[:last], ", "), shown[last])
}

// eagerNodes is the number of nodes up to which --lazy=auto sends the whole
// table: there a program that needs all of it is served better, and one that
// needs little loses little (docs/decisions/0005-when-eager.md has the
// measurement).
const eagerNodes = 16

// transport decides how ranks find each other.
func (r *request) transport(nodes int) job.Transport {
	t := job.Transport{
		Fabric: cmp.Or(r.fabric, "auto"), Iface: r.iface, Stats: r.stats != "", Tell: r.verbose > 0,
		SL: r.sl, PKey: r.pkey, GID: r.gid, Spin: r.spin,
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
