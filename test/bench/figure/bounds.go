package figure

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// Figure is a value that was compared with a bound.
type Figure struct {
	What  string
	Got   float64
	Side  string // "at most" or "at least"
	Bound float64
	Met   bool
}

// String returns the line that Bounds prints and ParseFigures reads.
func (f Figure) String() string {
	return fmt.Sprintf("%s: %.2f (bound: %s %.2f): %s", f.What, f.Got, f.Side, f.Bound,
		map[bool]string{true: "met", false: "MISSED"}[f.Met])
}

var printed = regexp.MustCompile(`(?m)^(.+): (\S+) \(bound: (at most|at least) (\S+)\): (met|MISSED)$`)

// ParseFigures returns the figures that Bounds has printed in the output of a benchmark.
func ParseFigures(output []byte) (list []Figure) {
	for _, m := range printed.FindAllSubmatch(output, -1) {
		f := Figure{What: string(m[1]), Side: string(m[3]), Met: string(m[5]) == "met"}
		var errGot, errBound error
		f.Got, errGot = strconv.ParseFloat(string(m[2]), 64)
		f.Bound, errBound = strconv.ParseFloat(string(m[4]), 64)
		if errors.Join(errGot, errBound) == nil {
			list = append(list, f)
		}
	}
	return list
}

// Bounds prints each value with its bound, and collects the bounds that were missed.
type Bounds struct {
	To     io.Writer
	missed []string
}

// AtMost compares a value with its upper bound.
func (b *Bounds) AtMost(what string, got, bound float64) {
	b.Judge(Figure{what, got, "at most", bound, got <= bound})
}

// AtLeast compares a value with its lower bound.
func (b *Bounds) AtLeast(what string, got, bound float64) {
	b.Judge(Figure{what, got, "at least", bound, got >= bound})
}

// Judge prints a figure and records whether its bound was met.
func (b *Bounds) Judge(f Figure) {
	if !f.Met {
		b.missed = append(b.missed, f.What)
	}
	fmt.Fprintln(b.To, f)
}

// Err returns an error that names the missed bounds, or nil.
func (b *Bounds) Err() error {
	if len(b.missed) == 0 {
		return nil
	}
	return fmt.Errorf("missed: %s", strings.Join(b.missed, "; "))
}

// Keep replaces a table in the Markdown file path. command is the command line that makes the table, such as "make
// bench-data". Comments with its text mark the start and the end of the table. Keep calls table with the old text
// between these marks, and writes the text that table returns there. If the file has no such marks, Keep adds them
// and the table at its end.
func Keep(path, command string, table func(before string) string) error {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	begins, ends := []byte("<!-- "+command+" -->\n"), []byte("<!-- end of "+command+" -->\n")
	head, rest, found := bytes.Cut(text, begins)
	old, tail, closed := bytes.Cut(rest, ends)
	if !found || !closed {
		head, old, tail = text, nil, nil
	}
	whole := bytes.Join([][]byte{head, begins, []byte(table(string(old))), ends, tail}, nil)
	return os.WriteFile(path, whole, 0o644)
}
