package ibrun_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const beforeFile = "docs/before-after.md"

// oneSpace makes every stretch of white space one space: sentences go over lines.
func oneSpace(text string) string { return strings.Join(strings.Fields(text), " ") }

// checkBefore looks for each text that a page calls the present one in the file that it names. The
// texts of before are history, which a copy of the tree may not have.
func checkBefore(page string, read func(name string) (string, error)) (rows map[string]int, faults []string) {
	rows = map[string]int{}
	heading := ""
	for line := range strings.Lines(page) {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			heading = strings.TrimSpace(name)
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if !strings.HasPrefix(line, "| ") || cells[0] == "before" || cells[0] == "---" {
			continue
		}
		if len(cells) != 4 {
			faults = append(faults, fmt.Sprintf("a row of %d cells: %s", len(cells), line))
			continue
		}
		rows[heading]++
		after, place := cells[2], cells[3]
		if strings.HasPrefix(after, "`") && strings.HasSuffix(after, "`") {
			after = strings.Trim(after, "`")
		}
		text, err := read(place)
		if err != nil || !strings.Contains(oneSpace(text), oneSpace(after)) {
			faults = append(faults, fmt.Sprintf("%s does not have: %s", place, after))
		}
	}
	return rows, faults
}

func TestPolicyBeforeAfter(t *testing.T) {
	page, err := os.ReadFile(beforeFile)
	require.NoError(t, err)
	rows, faults := checkBefore(string(page), func(name string) (string, error) {
		text, err := os.ReadFile(name)
		return string(text), err
	})
	require.Empty(t, strings.Join(faults, "\n"))
	require.Equal(t, map[string]int{"Sentences": 10, "Names": 10, "Signatures": 10}, rows)
}

func TestPolicyBeforeAfterFails(t *testing.T) {
	read := func(name string) (string, error) {
		if name != "a.go" {
			return "", os.ErrNotExist
		}
		return "package a\n\n// B is\n//\tlong.\nfunc B(\n\tc int,\n) {}\n", nil
	}
	head := "## Names\n\n| before | place | after | place |\n| --- | --- | --- | --- |\n"
	for row, want := range map[string][]string{
		"| `func A()` | a.go | `func B( c int, )` | a.go |\n": nil,
		"| `func A()` | a.go | `func C()` | a.go |\n":         {"a.go does not have: func C()"},
		"| `func A()` | a.go | `func B(` | b.go |\n":          {"b.go does not have: func B("},
		"| a | b |\n": {"a row of 2 cells: | a | b |\n"},
	} {
		_, faults := checkBefore(head+row, read)
		require.Equal(t, want, faults)
	}
}
