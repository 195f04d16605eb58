package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"ibrun/test/bench/figure"
)

// all runs make targets one after the other. Each target prints measured values with their bounds. all writes these
// to the table in the document PAGE, beside the values of the previous run. The table keeps its rows of targets that
// are not run. all returns an error if a target fails.
func all(args []string) error {
	var page string
	var targets []string
	if err := figure.Parse(args, &page, &targets); err != nil {
		return err
	}
	return runAll(page, targets, func(target string) ([]byte, error) {
		var out bytes.Buffer
		c := exec.Command("make", "--no-print-directory", target)
		c.Stdout, c.Stderr = io.MultiWriter(os.Stdout, &out), os.Stderr
		err := c.Run()
		return out.Bytes(), err
	}, os.Stdout)
}

// row is one line of the table in the document: a value (got) that the make target printed, its name (what), its
// value in the previous run (before), and its bound. If a target has failed for another reason than a missed bound, a
// row has the error in what.
type row struct{ target, what, got, before, bound, verdict string }

// Values of row.verdict.
const (
	hit    = "hit"
	missed = "**missed**"
	failed = "failed"
)

func runAll(page string, targets []string, measure func(string) ([]byte, error), to io.Writer) error {
	commit, _ := exec.Command("git", "describe", "--always", "--dirty").Output() // for the reader
	machine, began := figure.Machine(), time.Now()
	var rows []row
	var errs error
	for _, t := range targets {
		output, err := measure(t)
		count, figures := 0, figure.ParseFigures(output)
		for _, f := range figures {
			verdict := hit
			if !f.Met {
				verdict = missed
				count++
			}
			rows = append(rows, row{t, f.What, decimal(f.Got), "", f.Side + " " + decimal(f.Bound), verdict})
		}
		switch {
		case count > 0:
			errs = errors.Join(errs, fmt.Errorf("%s: %d of %d bounds missed", t, count, len(figures)))
		case err != nil:
			errs = errors.Join(errs, fmt.Errorf("%s: %w", t, err))
			rows = append(rows, row{target: t, what: strings.ReplaceAll(err.Error(), "|", "/"), verdict: failed})
		}
	}
	return errors.Join(figure.Keep(page, "make bench-all", func(before string) string {
		old := parseRows(before)
		for i := range rows {
			rows[i].compare(old, to)
		}
		for _, o := range old {
			if !slices.Contains(targets, o.target) {
				rows = append(rows, o)
			}
		}
		return fmt.Sprintf("Commit %s, %s, %.0f minutes.\n%s.\n\n", bytes.TrimSpace(commit),
			began.UTC().Format(time.DateTime+" UTC"), time.Since(began).Minutes(), machine) + table(rows)
	}), errs)
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// noise is the largest relative difference to the value of the previous run for which nothing is printed.
const noise = 0.15

// compare searches old for the row of the same value, and copies the value of the previous run from it. It prints
// both values if they differ by more than noise.
func (r *row) compare(old []row, to io.Writer) {
	i := slices.IndexFunc(old, func(o row) bool { return o.target == r.target && o.what == r.what })
	if i < 0 {
		return
	}
	r.before = old[i].got
	got, _ := strconv.ParseFloat(r.got, 64)
	before, _ := strconv.ParseFloat(r.before, 64)
	if got < before*(1-noise) || got > before*(1+noise) {
		fmt.Fprintf(to, "%s: %s: %s, was %s\n", r.target, r.what, r.got, r.before)
	}
}

const tableHead = "| benchmark | figure | measured | before | bound | |\n| --- | --- | --- | --- | --- | --- |\n"

// table returns the table in Markdown, with missed bounds and failures first.
func table(rows []row) string {
	text := tableHead
	for _, good := range []bool{false, true} {
		for _, r := range rows {
			if (r.verdict == hit) == good {
				text += fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n",
					r.target, r.what, r.got, r.before, r.bound, r.verdict)
			}
		}
	}
	return text
}

// parseRows reads the table of a page.
func parseRows(text string) (rows []row) {
	_, text, _ = strings.Cut(text, tableHead)
	for line := range strings.Lines(text) {
		if f := strings.Split(line, "|"); len(f) == 8 {
			for i := range f {
				f[i] = strings.TrimSpace(f[i])
			}
			rows = append(rows, row{f[1], f[2], f[3], f[4], f[5], f[6]})
		}
	}
	return rows
}
