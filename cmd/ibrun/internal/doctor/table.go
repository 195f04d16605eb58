package doctor

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// row is nodes that are alike, and what they are like. What is never quite
// equal is shown from the least to the most.
type row struct {
	names  []string
	cells  []string // in the order of heads, without what spreads
	ports  []string // each on a line of its own, without its LID
	load   spread
	free   spread // of memory, per cent
	answer spread // seconds
	lids   []spread
}

// heads are the columns of the table.
var heads = []string{"nodes", "reached", "kernel", "CPUs", "load", "memory free", "data path", "memlock", "RDMA"}

// spread is from the least to the most of some numbers.
type spread struct{ least, most float64 }

func (s spread) with(o spread) spread { return spread{min(s.least, o.least), max(s.most, o.most)} }

func (s spread) text(format string) string {
	a, b := fmt.Sprintf(format, s.least), fmt.Sprintf(format, s.most)
	if a == b {
		return a
	}
	return a + "-" + b
}

// tableOf puts nodes that are alike into one row, in the order of their first.
func tableOf(nodes []Node) (rows []row) {
	for i := range nodes {
		r := rowOf(&nodes[i])
		at := slices.IndexFunc(rows,
			func(o row) bool { return slices.Equal(o.cells, r.cells) && slices.Equal(o.ports, r.ports) })
		if at < 0 {
			rows = append(rows, r)
			continue
		}
		o := &rows[at]
		o.names = append(o.names, r.names...)
		o.load, o.free, o.answer = o.load.with(r.load), o.free.with(r.free), o.answer.with(r.answer)
		for k := range o.lids {
			o.lids[k] = o.lids[k].with(r.lids[k])
		}
	}
	return rows
}

func rowOf(n *Node) row {
	r := n.Report
	if r == nil {
		return row{names: []string{n.Name}, cells: []string{"not: " + n.Lost.Phase}}
	}
	one := func(v float64) spread { return spread{v, v} }
	o := row{
		names: []string{n.Name}, load: one(r.CPUs.Load), answer: one(n.Answer),
		free: one(100 * float64(r.Memory.Available) / float64(max(r.Memory.Total, 1))),
		cells: []string{n.How, r.Kernel + " " + r.Machine, cpusText(r.CPUs), Size(r.Memory.Total),
			routeText(r.Data), memlockText(r.Memlock)},
	}
	for _, h := range r.HCAs {
		for i := range h.Ports {
			p := &h.Ports[i]
			o.ports = append(o.ports, portText(&h, p))
			o.lids = append(o.lids, one(float64(p.LID)))
		}
	}
	return o
}

func cpusText(c CPUs) string {
	text := c.Allowed
	if c.Allowed != c.Online {
		text += " of " + c.Online
	}
	if c.Quota > 0 {
		text += fmt.Sprintf(", quota %.3g", c.Quota)
	}
	return text
}

func routeText(d Route) string {
	if d.Fault != "" {
		return "none"
	}
	text := fmt.Sprintf("%s mtu %d", d.Interface, d.MTU)
	if d.Speed > 0 {
		text += fmt.Sprintf(" %g Gb/s", float64(d.Speed)/1000)
	}
	return text
}

func memlockText(l Limit) string {
	if l.Soft < 0 {
		return "unlimited"
	}
	return Size(uint64(l.Soft))
}

func portText(h *HCA, p *Port) string {
	words := []string{fmt.Sprintf("%s:%d", h.Name, p.Number), p.State, p.Layer, fmt.Sprintf("%g Gb/s", p.Rate)}
	if p.MTU > 0 {
		words = append(words, fmt.Sprintf("mtu %d", p.MTU))
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// lines are a row's lines of the table: one, and one more for each further port.
func (r row) lines() (lines [][]string) {
	if len(r.cells) == 1 {
		return [][]string{{Fold(r.names), r.cells[0]}}
	}
	ports := []string{"none"}
	for i, p := range r.ports {
		if lid := r.lids[i]; lid.most > 0 {
			p += " LID " + lid.text("%.0f")
		}
		ports = append(ports[:i], p)
	}
	first := []string{
		Fold(r.names), fmt.Sprintf("%s %s s", r.cells[0], r.answer.text("%.1f")),
		r.cells[1], r.cells[2], r.load.text("%.1f"),
		fmt.Sprintf("%s %% of %s", r.free.text("%.0f"), r.cells[3]), r.cells[4], r.cells[5], ports[0],
	}
	lines = append(lines, first)
	for _, p := range ports[1:] {
		more := make([]string, len(heads))
		more[len(heads)-1] = p
		lines = append(lines, more)
	}
	return lines
}

// writeTable aligns the rows below their heads.
func writeTable(b *strings.Builder, rows []row) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	lines := [][]string{heads}
	for _, r := range rows {
		lines = append(lines, r.lines()...)
	}
	for _, cells := range lines {
		// Add empty cells, because tabwriter aligns a column only across consecutive lines that have a cell in it.
		empty := strings.Repeat("\t", len(heads)-len(cells))
		fmt.Fprintln(w, strings.Join(cells, "\t")+"\t"+empty)
	}
	_ = w.Flush() // writes to a strings.Builder never fail
}
