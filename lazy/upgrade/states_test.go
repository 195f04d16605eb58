package upgrade

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite docs/dev/upgrade.md")

const statesFile = "../../docs/dev/upgrade.md"

// TestTable checks that the table says something about every state of a region and
// every input of it, once, and why where nothing is done.
func TestTable(t *testing.T) {
	used := map[step]bool{}
	rows := map[[2]int]int{}
	for _, r := range table {
		says := len(r.actions) > 0 || r.why != "" || r.inputs[0] == inOver
		require.True(t, says, "%v, %v is ignored without a reason", r.from, r.inputs)
		for _, a := range r.actions {
			if a, ok := a.(step); ok {
				used[a] = true
			}
		}
		for _, s := range r.from {
			require.Equal(t, r.from[0].region(), s.region())
			require.Subset(t, of[s.region()], r.inputs, "%v", s)
			require.True(t, r.next == same || r.next.region() == s.region(), "%v, %v leads elsewhere", s, r.inputs)
			for _, in := range r.inputs {
				rows[[2]int{int(s), int(in)}]++
			}
		}
	}
	require.Len(t, used, int(stepCount))
	for s := range states {
		for _, in := range of[s.region()] {
			require.Equal(t, 1, rows[[2]int{int(s), int(in)}], "%v of %q, %v", s, s.region(), in)
		}
	}
}

// renderTable lists the rows of docs/dev/upgrade.md, by input. The text before them is written by hand.
func renderTable() string {
	var b strings.Builder
	for region := range regions {
		fmt.Fprintf(&b, "\n## %s\n\n| state | event | next | what happens | why |\n", region)
		b.WriteString("|---|---|---|---|---|\n")
		for _, in := range of[region] {
			for _, r := range table {
				if r.from[0].region() == region && slices.Contains(r.inputs, in) {
					b.WriteString(renderRow(r, in))
				}
			}
		}
	}
	return b.String()
}

func renderRow(r row, in input) string {
	from, what := make([]string, 0, len(r.from)), make([]string, 0, len(r.actions))
	for _, s := range r.from {
		from = append(from, s.String())
	}
	for _, a := range r.actions {
		switch a := a.(type) {
		case Control:
			what = append(what, "send "+a.String())
		case EffectKind:
			what = append(what, effectNames[a])
		case step:
			what = append(what, steps[a].name)
		}
	}
	if len(what) == 0 {
		what = append(what, "-")
	}
	next := ""
	if r.next != same {
		next = r.next.String()
	}
	return fmt.Sprintf("| %s | %v | %s | %s | %s |\n", strings.Join(from, ", "), in, next, strings.Join(what, "; "), r.why)
}

// TestStates compares docs/dev/upgrade.md with the table.
func TestStates(t *testing.T) {
	have, err := os.ReadFile(statesFile)
	require.NoError(t, err)
	at := strings.Index(string(have), "\n## The stream\n")
	require.NotEqual(t, -1, at)
	text, rows := string(have)[:at], string(have)[at:]
	if *update {
		rows = renderTable()
		require.NoError(t, os.WriteFile(statesFile, []byte(text+rows), 0o644))
	}
	require.Equal(t, renderTable(), rows, "go test ./lazy/upgrade -run TestStates -update")
}
