package ibrun_test

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Columns that a line may have. A tab counts as four, as in most views of Go; gofmt sets none.
const (
	maxCode  = 120
	maxProse = 100
	tabWidth = 4
)

// wide lists what still has lines that are too long: folders of Go files, and documents. Entries
// only go: one without a long line fails.
var wide = []string{
	"bootstrap/core",
	"bootstrap/pmiserver",
	"bootstrap/spawn",
}

func columns(line string) (n int) {
	for _, r := range line {
		n++
		if r == '\t' {
			n += tabWidth - 1
		}
	}
	return n
}

// rawLines finds the lines of raw strings that go over several: they are data, such as the tables
// of tests.
func rawLines(text string) map[int]bool {
	inside := map[int]bool{}
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, 0)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return inside
		}
		if tok == token.STRING && lit[0] == '`' && strings.Contains(lit, "\n") {
			for i := range strings.Count(lit, "\n") + 1 {
				inside[file.Line(pos)+i] = true
			}
		}
	}
}

// wideCode returns the lines of a Go file that are too long: comments at maxProse, all else at
// maxCode.
func wideCode(f source) (faults []string) {
	raw := rawLines(f.text)
	number := 0
	for line := range strings.Lines(f.text) {
		number++
		line = strings.TrimSuffix(line, "\n")
		most, what := maxCode, "a line"
		if bare := strings.TrimSpace(line); strings.HasPrefix(bare, "// ") {
			most, what = maxProse, "a comment"
		} else if strings.HasPrefix(bare, "//") {
			continue // a directive
		}
		if n := columns(line); n > most && !raw[number] && !strings.Contains(line, "://") {
			faults = append(faults, fmt.Sprintf("%s:%d: %s of %d columns, at most %d", f.path, number, what, n, most))
		}
	}
	return faults
}

// wideText returns the lines of a document that are too long. Tables, code, pictures and lines with
// a URL may be.
func wideText(f source) (faults []string) {
	number, fenced := 0, false
	for line := range strings.Lines(f.text) {
		number++
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		switch {
		case fenced, strings.Contains(line, "://"), columns(line) <= maxProse:
		case strings.HasPrefix(line, "    "), strings.HasPrefix(line, "|"), strings.HasPrefix(line, "!["):
		default:
			faults = append(faults, fmt.Sprintf("%s:%d: %d columns, at most %d", f.path, number, columns(line),
				maxProse))
		}
	}
	return faults
}

// checkWidths holds files against the widths, but for what is listed. A list entry is a document,
// or the folder of a Go file.
func checkWidths(list []string, files []source) (faults []string) {
	needed := map[string]bool{}
	for _, f := range files {
		entry, found := f.path, []string(nil)
		if path.Ext(f.path) == ".go" {
			entry, found = path.Dir(f.path), wideCode(f)
		} else {
			found = wideText(f)
		}
		if !slices.Contains(list, entry) {
			faults = append(faults, found...)
		} else if len(found) > 0 {
			needed[entry] = true
		}
	}
	for _, entry := range list {
		if !needed[entry] {
			faults = append(faults, entry+" has no long line any more: take it from the list")
		}
	}
	return faults
}

func documents(t *testing.T) (files []source) {
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md"} {
		names, err := fs.Glob(os.DirFS("."), pattern)
		require.NoError(t, err)
		for _, name := range names {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			files = append(files, source{name, string(text)})
		}
	}
	require.Greater(t, len(files), 10)
	return files
}

func TestPolicyWidths(t *testing.T) {
	require.Empty(t, strings.Join(checkWidths(wide, append(sources(t), documents(t)...)), "\n"))
}

// TestPolicyWidthsFail shows each rule of the widths failing, and what it leaves alone.
func TestPolicyWidthsFail(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		file source
		want string // empty: nothing
	}{
		"code": {source{"a/a.go", "package a\n\nvar " + long(117) + " int\n"},
			"a/a.go:3: a line of 125 columns, at most 120"},
		"code with tabs": {source{"a/a.go", "package a\n\n\t\t" + long(113) + "\n"},
			"a/a.go:3: a line of 121 columns, at most 120"},
		"code that fits": {source{"a/a.go", "package a\n\n\t\t" + long(112) + "\n"}, ""},
		"comment": {source{"a/a.go", "package a\n\n\t// " + long(94) + "\n"},
			"a/a.go:3: a comment of 101 columns, at most 100"},
		"directive":  {source{"a/a.go", "package a\n\n//go:generate " + long(150) + "\n"}, ""},
		"raw string": {source{"a/a.go", "package a\n\nvar a = `\n" + long(150) + "\n`\n"}, ""},
		"after it": {source{"a/a.go", "package a\n\nvar a = `\n`\n// " + long(98) + "\n"},
			"a/a.go:5: a comment of 101 columns, at most 100"},
		"short raw": {source{"a/a.go", "package a\n\nvar a = `" + long(150) + "`\n"},
			"a/a.go:3: a line of 160 columns, at most 120"},
		"URL":           {source{"a/a.go", "package a\n\n// see https://" + long(100) + "\n"}, ""},
		"document":      {source{"a.md", "# a\n\n" + long(101) + "\n"}, "a.md:3: 101 columns, at most 100"},
		"runes":         {source{"a.md", strings.Repeat("─", 100) + "\n"}, ""},
		"list":          {source{"a.md", "- " + long(99) + "\n"}, "a.md:1: 101 columns, at most 100"},
		"table":         {source{"a.md", "| " + long(150) + " |\n"}, ""},
		"example":       {source{"a.md", "    " + long(150) + "\n"}, ""},
		"fence":         {source{"a.md", "```\n" + long(150) + "\n```\n"}, ""},
		"after a fence": {source{"a.md", "```\n```\n" + long(101) + "\n"}, "a.md:3: 101 columns, at most 100"},
		"link":          {source{"a.md", "[a](https://" + long(150) + ")\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			faults := checkWidths(nil, []source{c.file})
			if c.want == "" {
				require.Empty(t, faults)
				return
			}
			require.Equal(t, []string{c.want}, faults)
		})
	}
	files := []source{{"a/a.go", "package a\n\nvar " + long(117) + " int\n"}, {"a.md", "short\n"}}
	require.Empty(t, checkWidths([]string{"a"}, files))
	require.Equal(t, []string{"a.md has no long line any more: take it from the list"},
		checkWidths([]string{"a", "a.md"}, files))
}
