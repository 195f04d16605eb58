package message

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ibrun"
	"ibrun/test/bench/figure"
)

// row is one line of a table of results. Ours is the median value with package ibrun, and Theirs that with plain
// sockets. Ratio is the median over the rounds of the value with ibrun, divided by the value with plain sockets.
// Bound is an upper bound of Ratio, unless Least is set.
type row struct {
	What         string
	Unit         string
	Ours, Theirs float64
	Ratio, Bound float64
	Least        bool    // Bound is a lower bound of Ratio
	CPU          float64 // CPU time of both ranks, divided by that with plain sockets, or 0 if not measured
}

// pair has the values of package ibrun (ours) and of plain sockets (theirs), one for each round, and the CPU time that
// this rank used for each. The CPU times help to judge values that were measured on a busy machine.
type pair struct {
	ours, theirs           []float64
	spentOurs, spentTheirs time.Duration
}

// beside measures two functions in turns. It drops the values of a first round, but not its CPU time.
func beside(rounds int, ours, theirs func() (float64, error)) (p pair, err error) {
	charged := func(to *time.Duration, f func() (float64, error)) *figure.Way {
		return &figure.Way{Name: "in turns", Do: func() (float64, error) {
			before := figure.CPU(unix.RUSAGE_SELF)
			v, err := f()
			*to += figure.CPU(unix.RUSAGE_SELF) - before
			return v, err
		}}
	}
	a, b := charged(&p.spentOurs, ours), charged(&p.spentTheirs, theirs)
	err = figure.Measure(1, rounds, a, b)
	p.ours, p.theirs = a.Values, b.Values
	return p, err
}

// ratioOfCPU returns the CPU time of rank 0 and rank 1 with package ibrun, divided by that with plain sockets. Both
// ranks call it with the same text what, which is part of a key. In rank 1 it returns 0.
func (p pair) ratioOfCPU(ctx context.Context, w *ibrun.World, what string) (float64, error) {
	if w.Rank() > 0 {
		return 0, w.Put(ctx, "cpu "+what, fmt.Appendf(nil, "%d %d", p.spentOurs, p.spentTheirs))
	}
	text, err := w.Get(ctx, 1, "cpu "+what)
	if err != nil {
		return 0, err
	}
	var ours, theirs time.Duration
	_, err = fmt.Sscan(string(text), &ours, &theirs)
	return float64(p.spentOurs+ours) / float64(p.spentTheirs+theirs), err
}

// atMost returns a row with an upper bound of its ratio. The ratio is the median of the ratios of the rounds, because
// both values of a round are measured under about the same load.
func atMost(what, unit string, p pair, bound float64) row {
	var ratios []float64
	for i, v := range p.ours {
		ratios = append(ratios, v/p.theirs[i])
	}
	return row{What: what, Unit: unit, Ours: figure.Median(p.ours), Theirs: figure.Median(p.theirs),
		Ratio: figure.Median(ratios), Bound: bound}
}

// atLeast returns the same row as atMost, but with a lower bound of its ratio.
func atLeast(what, unit string, p pair, bound float64) row {
	r := atMost(what, unit, p, bound)
	r.Least = true
	return r
}

// medians merges tables with the same rows, one table of each job. The values in row i of the result are the medians
// of the values in row i of all tables.
func medians(times [][]row) (list []row) {
	of := func(i int, value func(row) float64) float64 {
		var all []float64
		for _, rows := range times {
			all = append(all, value(rows[i]))
		}
		return figure.Median(all)
	}
	for i, r := range times[0] {
		r.Ours, r.Theirs = of(i, func(r row) float64 { return r.Ours }), of(i, func(r row) float64 { return r.Theirs })
		r.Ratio, r.CPU = of(i, func(r row) float64 { return r.Ratio }), of(i, func(r row) float64 { return r.CPU })
		list = append(list, r)
	}
	return list
}

func (r row) figure() figure.Figure {
	f := figure.Figure{What: r.What, Got: r.Ratio, Side: "at most", Bound: r.Bound, Met: r.Ratio <= r.Bound}
	if r.Least {
		f.Side, f.Met = "at least", r.Ratio >= r.Bound
	}
	return f
}

// tableOf returns a table of rows in Markdown. It states that the values are medians of the given number of rounds.
func tableOf(rows []row, rounds int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Medians of %d rounds, %s.\n\n", rounds, figure.Machine())
	b.WriteString("| messages | ibrun | plain | ratio | bound | | CPU |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range rows {
		f, verdict, cpu := r.figure(), "hit", ""
		if !f.Met {
			verdict = "missed"
		}
		if r.CPU > 0 {
			cpu = fmt.Sprintf("%.2f", r.CPU)
		}
		fmt.Fprintf(&b, "| %s | %.1f %s | %.1f %s | %.2f | %s %.2f | %s | %s |\n", r.What, r.Ours, r.Unit, r.Theirs,
			r.Unit, r.Ratio, f.Side, r.Bound, verdict, cpu)
	}
	return b.String()
}

// judge prints the ratio of each row with its bound, and returns an error that names the missed bounds.
func judge(rows []row, to io.Writer) error {
	b := figure.Bounds{To: to}
	for _, r := range rows {
		b.Judge(r.figure())
	}
	return b.Err()
}
