// Package show formats a machine as a picture in text, as JSON, and as XML of hwloc 2 (hwloc2.dtd). Binding formats the
// CPUs of one rank as a line of text. The package performs no I/O.
//
// Each client of libpmix 5 needs the topology when it starts. With the XML it need not read sysfs. The XML has the CPUs
// and NUMA nodes that may be used, and the packages, cores and last-level caches. It has no other caches, no distances
// and no devices.
package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ibrun/internal/cpuset"
	"ibrun/internal/plain"
	"ibrun/topo"
)

const (
	columns = 100 // of a picture
	many    = 64  // last-level caches above which none is drawn
)

// Picture is a machine for the user: packages, NUMA nodes, last-level caches and
// cores from the outside in, with the devices of each NUMA node below it, then
// what is at no NUMA node, then the notes. It is plain ASCII in lines of at
// most 100 columns, whatever the names in sysfs hold, and the same for equal
// machines.
//
// A core is its CPUs: "0,16". What may not be used is in parentheses, a slower
// core has a ~ before it; the picture explains these marks if it has them.
func Picture(m *topo.Machine) string {
	p := picture{m: m, near: map[int][]device{}}
	p.attach()
	p.summary()
	p.processors()
	for i, mem := range m.Memories {
		if mem.CPUs.Empty() {
			p.line(0, "%s, no CPUs", p.memory(i))
			p.devices(1, mem.ID)
		}
	}
	p.elsewhere()
	for _, note := range m.Notes {
		p.wrap("note: ", printable(note, 1000), " ")
	}
	return p.b.String()
}

type picture struct {
	m    *topo.Machine
	b    strings.Builder
	near map[int][]device // by NUMA node; drawn ones are taken out
}

func (p *picture) line(depth int, format string, args ...any) {
	fmt.Fprintf(&p.b, strings.Repeat("  ", depth)+format+"\n", args...)
}

// wrap draws a text that is broken after any of some characters; lines after
// the first begin below the end of what is before it.
func (p *picture) wrap(before, text, after string) {
	for _, line := range broken(text, after, columns-len(before)) {
		p.b.WriteString(strings.TrimRight(before+line, " ") + "\n")
		before = strings.Repeat(" ", len(before))
	}
}

// broken is a text in lines of at most so many columns. A piece that is longer
// is broken anywhere.
func broken(text, after string, width int) (lines []string) {
	line := ""
	for text != "" {
		piece := text
		if i := strings.IndexAny(text, after); i >= 0 {
			piece = text[:i+1]
		}
		piece = piece[:min(len(piece), width)]
		text = text[len(piece):]
		if line != "" && len(strings.TrimRight(line+piece, " ")) > width {
			lines, line = append(lines, strings.TrimRight(line, " ")), ""
		}
		line += piece
	}
	return append(lines, strings.TrimRight(line, " "))
}

// summary is what is asked first: how much is there, and how much of it for us.
func (p *picture) summary() {
	m := p.m
	words := []string{plain.Plural(len(m.Packages), "package")}
	if len(m.Dies) > 0 {
		words = append(words, plain.Plural(len(m.Dies), "die"))
	}
	words = append(words, plain.Plural(len(m.Memories), "NUMA node"))
	if len(m.L3s) > 0 {
		words = append(words, plain.Plural(len(m.L3s), "shared cache"))
	}
	words = append(words, plain.Plural(len(m.Cores), "core"), plain.Plural(m.Online.Len(), "CPU"))
	if bytes := p.bytes(); bytes > 0 {
		words = append(words, size(bytes))
	}
	if m.Load >= 0 {
		words = append(words, fmt.Sprintf("load %.2f", m.Load))
	}
	p.wrap("", strings.Join(words, ", "), " ")

	var ids cpuset.Set
	for _, mem := range m.Memories {
		if mem.ID >= 0 && mem.ID < cpuset.Max {
			ids.Add(mem.ID)
		}
	}
	var limits []string
	if !m.Online.In(m.Allowed) {
		limits = append(limits, fmt.Sprintf("%d of %s: %s", m.Allowed.Len(),
			plain.Plural(m.Online.Len(), "CPU"), m.Allowed))
	}
	if !ids.In(m.AllowedMems) {
		limits = append(limits, fmt.Sprintf("memory of %d of %s: %s", m.AllowedMems.Len(),
			plain.Plural(ids.Len(), "NUMA node"), m.AllowedMems))
	}
	if m.Quota > 0 {
		limits = append(limits, fmt.Sprintf("time of %.4g CPUs", m.Quota))
	}
	if limits != nil {
		p.wrap("allowed: ", strings.Join(limits, "; "), " ,")
	}
	if !m.Online.In(m.Allowed) || !ids.In(m.AllowedMems) {
		p.line(0, "(in parentheses: not allowed)")
	}
	if !m.Slower.Empty() {
		p.line(0, "(~: slower core)")
	}
}

// bytes is the memory of all NUMA nodes.
func (p *picture) bytes() (sum uint64) {
	for _, mem := range p.m.Memories {
		sum += mem.Bytes
	}
	return sum
}

// where is what a core is in: indices in the machine's lists, -1 for none.
type where struct{ pkg, numa, cache int }

// placed returns the package and the NUMA node of a core. The field cache of the result is always -1, for no cache.
func placed(m *topo.Machine, core topo.Object) where {
	cpu := core.CPUs.First()
	return where{
		pkg:   slices.IndexFunc(m.Packages, func(o topo.Object) bool { return o.CPUs.Has(cpu) }),
		numa:  slices.IndexFunc(m.Memories, func(mem topo.Memory) bool { return mem.CPUs.Has(cpu) }),
		cache: -1,
	}
}

func (p *picture) where(core topo.Object) where {
	w := placed(p.m, core)
	if len(p.m.L3s) <= many {
		cpu := core.CPUs.First()
		w.cache = slices.IndexFunc(p.m.L3s, func(o topo.Object) bool { return o.CPUs.Has(cpu) })
	}
	return w
}

// heading is the line above what is in an object, or in several that have the
// same CPUs.
type heading struct {
	text string
	cpus cpuset.Set
	numa int // ID of the NUMA node among them; -1: none
}

// headings are those above a core, from the outside in. Which of package, NUMA
// node and cache is in which is not the same on all machines: the larger is
// outside. A cache inside all others is none of them, but the label of the
// row that is returned beside them.
func (p *picture) headings(w where) (hs []heading, label string) {
	if w.pkg >= 0 {
		o := p.m.Packages[w.pkg]
		hs = append(hs, heading{named("package", o.ID), o.CPUs, -1})
	}
	if w.numa >= 0 {
		o := p.m.Memories[w.numa]
		hs = append(hs, heading{p.memory(w.numa), o.CPUs, o.ID})
	}
	label = "cores"
	if w.cache >= 0 {
		cache := heading{"cache", p.m.L3s[w.cache].CPUs, -1}
		inside := func(h heading) bool { return cache.cpus.Len() > h.cpus.Len() }
		if slices.ContainsFunc(hs, inside) {
			hs = append(hs, cache)
		} else {
			label = cache.text
		}
	}
	slices.SortStableFunc(hs, func(a, b heading) int { return cmp.Compare(b.cpus.Len(), a.cpus.Len()) })
	joined := hs[:0]
	for _, h := range hs {
		if n := len(joined); n > 0 && joined[n-1].cpus.Equal(h.cpus) {
			last := &joined[n-1]
			last.text, last.numa = last.text+", "+h.text, max(last.numa, h.numa)
			continue
		}
		joined = append(joined, h)
	}
	return joined, label
}

func (p *picture) processors() {
	var open []heading
	end := func(depth int) {
		for ; len(open) > depth; open = open[:len(open)-1] {
			p.devices(len(open), open[len(open)-1].numa)
		}
	}
	for cores := p.m.Cores; len(cores) > 0; {
		w, n := p.where(cores[0]), 1
		for n < len(cores) && p.where(cores[n]) == w {
			n++
		}
		hs, label := p.headings(w)
		same := 0
		for same < min(len(open), len(hs)) && open[same].text == hs[same].text && open[same].cpus.Equal(hs[same].cpus) {
			same++
		}
		end(same)
		for ; same < len(hs); same++ {
			p.line(same, "%s", hs[same].text)
			open = append(open, hs[same])
		}
		p.row(len(open), label, cores[:n])
		cores = cores[n:]
	}
	end(0)
}

// row draws cores that are in the same of everything: one by one if they fit
// into a line, otherwise as ranges.
func (p *picture) row(depth int, label string, cores []topo.Object) {
	before := fmt.Sprintf("%s%-5s  ", strings.Repeat("  ", depth), label)
	var each []string
	for _, c := range cores {
		mark := ""
		if c.CPUs.Meets(p.m.Slower) {
			mark = "~"
		}
		each = append(each, mark+p.cpus(c.CPUs))
	}
	if text := strings.Join(each, " "); len(before+text) <= columns {
		p.line(0, "%s%s", before, text)
		return
	}
	var runs []string
	for len(cores) > 0 {
		n, threads, slower := 0, cores[0].CPUs.Len(), cores[0].CPUs.Meets(p.m.Slower)
		var all cpuset.Set
		for ; n < len(cores) && cores[n].CPUs.Len() == threads && cores[n].CPUs.Meets(p.m.Slower) == slower; n++ {
			all = all.Or(cores[n].CPUs)
		}
		text := plain.Plural(n, "core")
		if slower {
			text = plain.Plural(n, "slower core")
		}
		if threads > 1 {
			text += " of " + plain.Plural(threads, "CPU")
		}
		runs = append(runs, text+": "+p.span(all))
		cores = cores[n:]
	}
	p.wrap(before, strings.Join(runs, "; "), " ,")
}

// cpus are some CPUs, those that are not allowed in parentheses.
func (p *picture) cpus(s cpuset.Set) string {
	text := s.And(p.m.Allowed).String()
	if not := s.Without(p.m.Allowed); !not.Empty() {
		if text != "" {
			text += ","
		}
		text += "(" + not.String() + ")"
	}
	return text
}

// span is many CPUs. Some firmware numbers them in turns over the packages,
// for which lists are long.
func (p *picture) span(s cpuset.Set) string {
	first, last, n := s.First(), s.Last(), s.Len()
	if !s.In(p.m.Allowed) || n < 3 || last-first == n-1 || (last-first)%(n-1) != 0 {
		return p.cpus(s)
	}
	step := (last - first) / (n - 1)
	for cpu := range s.All() {
		if (cpu-first)%step != 0 {
			return p.cpus(s)
		}
	}
	return fmt.Sprintf("%d-%d in steps of %d", first, last, step)
}

// memory is a NUMA node in words. If the sizes of all are 0, they are not
// known.
func (p *picture) memory(i int) string {
	mem := p.m.Memories[i]
	name, amount := named("NUMA node", mem.ID), size(mem.Bytes)
	if p.bytes() == 0 {
		amount = "memory"
	}
	switch {
	case !p.m.AllowedMems.Has(mem.ID):
		return name + ": (" + amount + ")"
	case p.bytes() == 0:
		return name
	}
	return name + ": " + amount
}

func named(thing string, id int) string {
	if id < 0 {
		return thing + " ?"
	}
	return fmt.Sprintf("%s %d", thing, id)
}

// size is an amount of memory.
func size(bytes uint64) string {
	const mib, gib = 1 << 20, 1 << 30
	switch {
	case bytes == 0:
		return "no memory"
	case bytes < gib:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/mib)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/gib)
}

// printable replaces all bytes of text but printable ASCII by "?", and cuts it to most bytes with "..." at the end.
// Names in sysfs can be long and can contain control characters.
func printable(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	if len(text) > most {
		text = text[:most-3] + "..."
	}
	return text
}
