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
	used := map[action]bool{}
	for _, r := range table {
		says := len(r.actions) > 0 || r.why != "" || r.input == inOver
		require.True(t, says, "%v, %v is ignored without a reason", r.from, r.input)
		for _, a := range r.actions {
			used[a] = true
		}
		for _, s := range r.from {
			require.Equal(t, r.from[0].region(), s.region())
			require.Contains(t, of[s.region()], r.input, "%v", s)
			require.True(t, r.next == same || r.next.region() == s.region(), "%v, %v leads elsewhere", s, r.input)
		}
	}
	require.Len(t, used, int(actions)-1)
	for s := range states {
		for _, in := range of[s.region()] {
			rows := 0
			for _, r := range table {
				if r.input == in && slices.Contains(r.from, s) {
					rows++
				}
			}
			require.Equal(t, 1, rows, "%v of %q, %v", s, s.region(), in)
		}
	}
}

// folded breaks a rule into lines of at most 100 columns.
func folded(rule string) string {
	var b strings.Builder
	column := 2
	for i, word := range strings.Fields(rule) {
		switch {
		case i == 0:
		case column+1+len(word) > 100:
			b.WriteString("\n  ")
			column = 2
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

func renderStates() string {
	var b strings.Builder
	b.WriteString("# States of an upgrade\n\n")
	b.WriteString("Made from the table in lazy/upgrade that is executed;\n")
	b.WriteString("`go test ./lazy/upgrade -run TestStates -update` rewrites it.\n")
	b.WriteString("An upgrade is what one rank of a pair knows about the pair's stream: the stream itself,\n")
	b.WriteString("the direction of its own messages, and that of the peer's. [lazy.md](../lazy.md) has the\n")
	b.WriteString("order of the messages in a drawing, and [protocol.md](protocol.md) their bytes.\n\n")
	b.WriteString("## Before the table\n\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "- %s\n", folded(r))
	}
	for of := range regions {
		fmt.Fprintf(&b, "\n## %s\n\n| state | event | next | what happens | why |\n", of)
		b.WriteString("|---|---|---|---|---|\n")
		for _, r := range table {
			if r.from[0].region() != of {
				continue
			}
			from, what := make([]string, 0, len(r.from)), make([]string, 0, len(r.actions))
			for _, s := range r.from {
				from = append(from, s.String())
			}
			for _, a := range r.actions {
				what = append(what, a.String())
			}
			if len(what) == 0 {
				what = append(what, "-")
			}
			next := ""
			if r.next != same {
				next = r.next.String()
			}
			fmt.Fprintf(&b, "| %s | %v | %s | %s | %s |\n",
				strings.Join(from, ", "), r.input, next, strings.Join(what, "; "), r.why)
		}
	}
	return b.String()
}

// TestStates compares docs/dev/upgrade.md with the table.
func TestStates(t *testing.T) {
	if *update {
		require.NoError(t, os.WriteFile(statesFile, []byte(renderStates()), 0o644))
	}
	have, err := os.ReadFile(statesFile)
	require.NoError(t, err)
	require.Equal(t, renderStates(), string(have), "go test ./lazy/upgrade -run TestStates -update")
}
