// Package every runs benchmarks in turn and keeps what they found: each ratio with its bound, the
// machine, the load and the commit, in a file and on a page. It says what differs from the run
// before by more than the noise.
//
//	bench all FILE PAGE TARGET [TARGET ...]
//
// A target is one of make's. `make bench-all` runs it. It fails if a target does, and refuses to
// know what is measured.
package every

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"ibrun/test/bench/figure"
)

// most is how long all benchmarks may take, in minutes.
const most = 40

// command marks the table on the page.
const command = "make bench-all"

// run is what a run of all benchmarks found, as the file has it.
type run struct {
	Machine string   `json:"machine"` // with the load before
	Commit  string   `json:"commit"`
	Date    string   `json:"date"`
	Minutes float64  `json:"minutes"`
	Targets []target `json:"targets"`
}

// target is what one target found.
type target struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	Failure string  `json:"failure,omitempty"` // though no bound was missed
	Figures []kept  `json:"figures"`
}

// kept is a figure with the values of earlier runs, the newest last.
type kept struct {
	figure.Figure
	Before []float64 `json:"before,omitempty"`
}

// Run is the subcommand.
func Run(args []string) error {
	if len(args) < 3 {
		return errors.New("usage: bench all FILE PAGE TARGET [TARGET ...]")
	}
	return all(args[0], args[1], args[2:], measure, os.Stdout)
}

// measure runs a target, whose output goes to the user, too.
func measure(name string) (output []byte, err error) {
	var out bytes.Buffer
	c := exec.Command("make", "--no-print-directory", name)
	c.Stdout, c.Stderr = io.MultiWriter(os.Stdout, &out), os.Stderr
	err = c.Run()
	return out.Bytes(), err
}

func all(file, page string, names []string, measure func(string) ([]byte, error), to io.Writer) error {
	old, err := read(file)
	if err != nil {
		return err
	}
	now := run{Machine: figure.Machine(), Commit: commit(), Date: time.Now().UTC().Format(time.DateTime + " UTC")}
	began := time.Now()
	for _, name := range names {
		var output []byte
		took, err := figure.Time(func() (err error) { output, err = measure(name); return err })
		now.Targets = append(now.Targets, newTarget(name, took, figure.Figures(output), err))
	}
	now.Minutes = time.Since(began).Minutes()
	now.after(old)
	for _, line := range now.changes() {
		if _, err := fmt.Fprintln(to, line); err != nil {
			return err
		}
	}
	failed := now.err()
	now.carry(old)
	text, err := json.MarshalIndent(now, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return errors.Join(figure.Keep(page, command, now.table()), failed)
}

// newTarget is what a target found that ended with an error, or none.
func newTarget(name string, took time.Duration, figures []figure.Figure, err error) target {
	t, missed := target{Name: name, Seconds: took.Round(time.Second).Seconds()}, false
	for _, f := range figures {
		t.Figures = append(t.Figures, kept{Figure: f})
		missed = missed || !f.Met
	}
	if err != nil && !missed {
		t.Failure = err.Error()
	}
	return t
}

// read is the run before; empty: there is none.
func read(file string) (old run, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return old, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &old)
	}
	return old, err
}

// commit is the one that is measured, with a mark if files differ from it.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// memory is how many earlier values are kept.
const memory = 5

// after adds the values of the runs before.
func (r *run) after(old run) {
	earlier := map[[2]string][]float64{}
	for _, t := range old.Targets {
		for _, f := range t.Figures {
			earlier[[2]string{t.Name, f.What}] = append(f.Before, f.Got)
		}
	}
	for _, t := range r.Targets {
		for i := range t.Figures {
			f := &t.Figures[i]
			before := earlier[[2]string{t.Name, f.What}]
			f.Before = before[max(0, len(before)-memory):]
		}
	}
}

// carry keeps what was not measured now as it was.
func (r *run) carry(old run) {
	for _, t := range old.Targets {
		if !slices.ContainsFunc(r.Targets, func(o target) bool { return o.Name == t.Name }) {
			r.Targets = append(r.Targets, t)
		}
	}
}

// noise is by what part a value may be outside of what earlier runs found.
const noise = 0.15

// changes names the figures that differ from those of earlier runs by more than the noise.
func (r *run) changes() (lines []string) {
	for _, t := range r.Targets {
		for _, f := range t.Figures {
			if len(f.Before) == 0 {
				continue
			}
			low, high, last := f.Before[0], f.Before[0], f.Before[len(f.Before)-1]
			for _, v := range f.Before {
				low, high = min(low, v), max(high, v)
			}
			if f.Got < low*(1-noise) || f.Got > high*(1+noise) {
				lines = append(lines, fmt.Sprintf("%s: %s: %.2f, was %.2f", t.Name, f.What, f.Got, last))
			}
		}
	}
	return lines
}

// err names the targets that missed a bound or failed.
func (r *run) err() (all error) {
	for _, t := range r.Targets {
		missed := 0
		for _, f := range t.Figures {
			if !f.Met {
				missed++
			}
		}
		switch {
		case t.Failure != "":
			all = errors.Join(all, fmt.Errorf("%s: %s", t.Name, t.Failure))
		case missed > 0:
			all = errors.Join(all, fmt.Errorf("%s: %d of %d bounds missed", t.Name, missed, len(t.Figures)))
		}
	}
	if r.Minutes > most {
		all = errors.Join(all, fmt.Errorf("all benchmarks took %.0f minutes, more than %d", r.Minutes, most))
	}
	return all
}

// table is what the page has: missed bounds first.
func (r *run) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Commit %s, %s, %.0f minutes.\n%s.\n\n", r.Commit, r.Date, r.Minutes, r.Machine)
	b.WriteString("| benchmark | figure | measured | before | bound | |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, met := range []bool{false, true} {
		for _, t := range r.Targets {
			if t.Failure != "" && !met {
				fmt.Fprintf(&b, "| %s | %s | | | | failed |\n", t.Name, strings.ReplaceAll(t.Failure, "|", "/"))
			}
			for _, f := range t.Figures {
				if f.Met != met {
					continue
				}
				before, verdict := "", "hit"
				if n := len(f.Before); n > 0 {
					before = fmt.Sprintf("%.2f", f.Before[n-1])
				}
				if !met {
					verdict = "**missed**"
				}
				fmt.Fprintf(&b, "| %s | %s | %.2f | %s | %s %.2f | %s |\n",
					t.Name, f.What, f.Got, before, f.Side, f.Bound, verdict)
			}
		}
	}
	return b.String()
}
