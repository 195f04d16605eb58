package between

import (
	"fmt"
	"io"
	"strings"

	"ibrun/test/bench/figure"
)

// row is one line of the table: medians of both ways, and of what is bounded.
type row struct {
	What         string
	Unit         string
	Ours, Theirs float64
	Ratio, Bound float64
	Least        bool    // the ratio should be large
	CPU          float64 // processor time of both ranks, divided by that of plain; 0: not measured
}

// atMost is a row of a pair of times. The ratio is the median of the rounds' ratios: both ways of a
// round were measured beside the same load.
func atMost(what, unit string, p figure.Pair, bound float64) row {
	ours, theirs, _ := p.Medians()
	var ratios []float64
	for i, v := range p.Ours {
		ratios = append(ratios, v/p.Theirs[i])
	}
	return row{What: what, Unit: unit, Ours: ours, Theirs: theirs, Ratio: figure.Median(ratios), Bound: bound}
}

// atLeast is a row of a pair of rates.
func atLeast(what, unit string, p figure.Pair, bound float64) row {
	r := atMost(what, unit, p, bound)
	r.Least = true
	return r
}

// middle has the medians of the same rows, measured several times.
func middle(times [][]row) (list []row) {
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

func (r row) met() bool {
	if r.Least {
		return r.Ratio >= r.Bound
	}
	return r.Ratio <= r.Bound
}

// tableOf is the table as a document has it.
func tableOf(rows []row, rounds int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Medians of %d rounds, %s.\n\n", rounds, figure.Machine())
	b.WriteString("| between two nodes | ibrun | plain | ratio | bound | | CPU |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range rows {
		side, verdict := "at most", "hit"
		if r.Least {
			side = "at least"
		}
		if !r.met() {
			verdict = "missed"
		}
		fmt.Fprintf(&b, "| %s | %.1f %s | %.1f %s | %.2f | %s %.2f | %s | %s |\n", r.What, r.Ours, r.Unit, r.Theirs,
			r.Unit, r.Ratio, side, r.Bound, verdict, shown(r.CPU))
	}
	return b.String()
}

// judge prints the bounds, and says which are missed.
func judge(rows []row, to io.Writer) error {
	b := figure.Bounds{To: to}
	for _, r := range rows {
		if r.Least {
			b.AtLeast(r.What, r.Ratio, r.Bound)
		} else {
			b.AtMost(r.What, r.Ratio, r.Bound)
		}
	}
	return b.Err()
}
