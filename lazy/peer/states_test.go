package peer

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite docs/dev/states.md and upgrade.md")

const statesFile = "../../docs/dev/states.md"

// TestTable checks that the table says something about every state and input,
// once, and why where nothing is done.
func TestTable(t *testing.T) {
	seen := map[[2]int]bool{}
	used := map[action]bool{}
	for _, r := range table {
		for _, state := range r.states {
			for _, input := range r.inputs {
				at := [2]int{int(state), int(input)}
				require.False(t, seen[at], "%v, %v twice", state, input)
				seen[at] = true
			}
		}
		require.True(t, len(r.actions) > 0 || r.why != "", "%v, %v is ignored without a reason", r.states, r.inputs)
		for _, a := range r.actions {
			used[a] = true
		}
	}
	require.Len(t, seen, int(states)*int(inputs))
	require.Len(t, used, int(actions)-1)
}

// tableHead precedes the rows in docs/dev/states.md. The text before it is written by hand.
const tableHead = "## The table\n\n| state | event | next | what happens | why |\n|---|---|---|---|---|\n"

func renderTable() string {
	var b strings.Builder
	for state := range states {
		for _, r := range index[state] {
			what := make([]string, 0, len(r.actions))
			for _, a := range r.actions {
				what = append(what, a.String())
			}
			if len(what) == 0 {
				what = append(what, "-")
			}
			next := r.next.String()
			if r.next == state {
				next = ""
			}
			fmt.Fprintf(&b, "| %v | %v | %s | %s | %s |\n", state, r.inputs[0], next, strings.Join(what, "; "), r.why)
		}
	}
	return b.String()
}

// TestStates compares docs/dev/states.md with the table.
func TestStates(t *testing.T) {
	have, err := os.ReadFile(statesFile)
	require.NoError(t, err)
	text, rows, found := strings.Cut(string(have), tableHead)
	require.True(t, found)
	if *update {
		rows = renderTable()
		require.NoError(t, os.WriteFile(statesFile, []byte(text+tableHead+rows), 0o644))
	}
	require.Equal(t, renderTable(), rows, "go test ./lazy/peer -run TestStates -update")
}
