package faults

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/plain"
)

// row is a case that was played.
type row struct {
	entry
	measured
	failed bool
}

// table is what make faults prints.
type table struct {
	mu    sync.Mutex
	rows  []row
	began time.Time
}

func (p *table) add(t *testing.T, e entry, m measured) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows = append(p.rows, row{e, m, len(m.wrong) > 0})
	if len(m.wrong) > 0 {
		t.Errorf("%s\nwrong: %s\noutput:\n%s", &e, strings.Join(m.wrong, "\n       "), m.output)
	}
}

// elsewhere runs the tests of the cases that other packages show, one package after the other.
func (p *table) elsewhere(t *testing.T) {
	tests := map[string][]entry{}
	for _, e := range elsewhere() {
		tests[e.in] = append(tests[e.in], e)
	}
	for _, in := range []string{"bootstrap/wire", "bootstrap/core", sim, e2e, ssh, attack, "test/login",
		"test/jobcontrol", "test/faults"} {
		var names []string
		for _, e := range tests[in] {
			name, _, _ := strings.Cut(e.test, "/")
			names = append(names, name)
		}
		slices.Sort(names)
		run := "^(" + strings.Join(slices.Compact(names), "|") + ")$"
		cmd := exec.Command("go", "test", "-json", "-count=1", "-timeout=20m", "-run", run, "./"+in)
		cmd.Dir = "../.."
		out, err := cmd.Output()
		took := results(out)
		for _, e := range tests[in] {
			r := took[e.test]
			if !r.passed {
				t.Errorf("%s: %s in %s: %v\n%s", &e, e.test, in, err, r.output)
			}
			p.rows = append(p.rows, row{entry: e, measured: measured{ended: r.took}, failed: !r.passed})
		}
		delete(tests, in)
	}
	require.Empty(t, tests, "packages that are not run")
}

// result is how a test of another package went.
type result struct {
	passed bool
	took   time.Duration
	output string
}

// results reads what go test -json prints.
func results(out []byte) map[string]result {
	found := map[string]result{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var line struct {
			Action, Test, Output string
			Elapsed              float64
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		r := found[line.Test]
		r.output += line.Output
		if line.Action == "pass" {
			r.passed, r.took = true, time.Duration(line.Elapsed*float64(time.Second))
		}
		found[line.Test] = r
	}
	return found
}

// text is the table in Markdown.
func (p *table) text() string {
	slices.SortStableFunc(p.rows, func(a, b row) int {
		return cmp.Or(strings.Compare(a.class, b.class), strings.Compare(a.in, b.in))
	})
	var b strings.Builder
	b.WriteString("| | fault | exit code | ended, s | promised, s | nothing left, s | processes, files left | " +
		"the line |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	failed := 0
	for i, r := range p.rows {
		verdict := ""
		if r.failed {
			failed++
			verdict = "**failed** "
		}
		if r.in != "" {
			fmt.Fprintf(&b, "| %s%d | %s%s | | %.1f | | | | %s in %s |\n", r.class, i+1, verdict, r.fault,
				r.ended.Seconds(), r.test, r.in)
			continue
		}
		line := plain.Text(r.measured.line)
		if len(line) > 100 {
			line = line[:100] + "..."
		}
		fmt.Fprintf(&b, "| %s%d | %s%s | %d | %.1f | %.0f | %.1f | %d, %d | %s |\n", r.class, i+1, verdict,
			asCell(plain.Text(r.fault)), r.measured.code, r.ended.Seconds(), r.most.Seconds(), r.cleaned.Seconds(),
			len(r.processes), len(r.files), asCell(line))
	}
	fmt.Fprintf(&b, "\n%d cases, %d failed, in %.0f s.\n", len(p.rows), failed, time.Since(p.began).Seconds())
	return b.String()
}

// asCell is a text in a cell of a table.
func asCell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

func (p *table) print(t *testing.T) {
	fmt.Print(p.text())
	if *whole {
		require.NoError(t, os.MkdirAll("../../out", 0o755))
		require.NoError(t, os.WriteFile(filepath.Join("../../out", "faults.md"), []byte(p.text()), 0o644))
	}
}
