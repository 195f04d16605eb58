package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ibrun/internal/job"
)

// fabricOptions say how ranks that use the package ibrun reach each other.
var fabricOptions = []option{
	{names: "fabric", takes: value, words: []string{"auto", "ib", "udp", "tcp"}, set: func(r *Request, v string) error {
		r.Fabric = v
		return nil
	}},
	{names: "sl", takes: value, set: func(r *Request, v string) error {
		if v == "path" {
			r.SL = job.SLOfPath
			return nil
		}
		n, err := number(v, 0, job.MaxSL)
		if r.SL = uint8(n); err != nil {
			return fmt.Errorf("%w, nor path", err)
		}
		return nil
	}},
	{names: "pkey", takes: value, set: func(r *Request, v string) error {
		n, err := number(v, 1, 1<<16-1)
		r.PKey = uint16(n)
		return err
	}},
	{names: "gid-index", takes: value, set: func(r *Request, v string) error {
		n, err := number(v, 0, 1<<8-2)
		r.GID = uint8(n + 1)
		return err
	}},
	{names: "poll", takes: value, words: []string{"auto", "events", "spin"}, set: func(r *Request, v string) error {
		r.Poll = map[string]job.Poll{"auto": job.PollAuto, "events": job.PollEvents, "spin": job.PollSpin}[v]
		return nil
	}},
	{names: "lazy", takes: optional, words: []string{"", "auto", "on", "off"}, set: func(r *Request, v string) error {
		r.Lazy = cmp.Or(v, "on")
		return nil
	}},
	{names: "eager", set: on(func(r *Request) *bool { return &r.Eager })},
	{names: "iface", takes: value,
		set: func(r *Request, v string) error { r.Iface = v; return plainWord(r, strings.ReplaceAll(v, "/", "")) }},
	{names: "hca", takes: value, set: func(r *Request, v string) error { r.Binding.HCA = v; return plainWord(r, v) }},
	{names: "stats", takes: optional, words: []string{"", "text", "json"}, set: func(r *Request, v string) error {
		r.Stats = cmp.Or(v, "text")
		return nil
	}},
}

// number reads a number within bounds, which may be written as 0x8001.
func number(v string, least, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(v, 0, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s is not a number from %d to %d", Quote(v), least, most)
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
	return fmt.Errorf("%s is not known: write %s or %s", Quote(v), strings.Join(shown[:last], ", "),
		shown[last])
}
