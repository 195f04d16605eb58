package figure

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strconv"
)

// Figure is a ratio that was held against a bound, as Bounds prints it.
type Figure struct {
	What  string  `json:"what"`
	Got   float64 `json:"got"`
	Side  string  `json:"side"` // "at most" or "at least"
	Bound float64 `json:"bound"`
	Met   bool    `json:"met"`
}

// printed is the line of Bounds.
var printed = regexp.MustCompile(`(?m)^(.+): (\S+) \(bound: (at most|at least) (\S+)\): (met|MISSED)$`)

// Figures finds what Bounds has printed in the output of a benchmark.
func Figures(output []byte) (list []Figure) {
	for _, m := range printed.FindAllSubmatch(output, -1) {
		f := Figure{What: string(m[1]), Side: string(m[3]), Met: string(m[5]) == "met"}
		var errGot, errBound error
		f.Got, errGot = strconv.ParseFloat(string(m[2]), 64)
		f.Bound, errBound = strconv.ParseFloat(string(m[4]), 64)
		if errGot == nil && errBound == nil {
			list = append(list, f)
		}
	}
	return list
}

// Keep puts a table into a document, in place of the one that the same command has put there. A
// document that has none gets it at its end.
func Keep(path, command, table string) error {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(path, replace(text, command, table), 0o644)
}

// replace puts the table between the lines that mark it.
func replace(text []byte, command, table string) []byte {
	begins, ends := []byte("<!-- "+command+" -->\n"), []byte("<!-- end of "+command+" -->\n")
	before, rest, found := bytes.Cut(text, begins)
	_, after, closed := bytes.Cut(rest, ends)
	if !found || !closed {
		before, after = text, nil
	}
	return bytes.Join([][]byte{before, begins, []byte(table), ends, after}, nil)
}
