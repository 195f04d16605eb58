package peer

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite docs/dev/states.md")

const statesFile = "../../docs/dev/states.md"

// TestTable checks that the table says something about every state and input,
// once, and why where nothing is done.
func TestTable(t *testing.T) {
	seen := map[[2]int]bool{}
	used := map[action]bool{}
	for _, r := range table {
		at := [2]int{int(r.state), int(r.input)}
		require.False(t, seen[at], "%v, %v twice", r.state, r.input)
		seen[at] = true
		require.True(t, len(r.actions) > 0 || r.why != "", "%v, %v is ignored without a reason", r.state, r.input)
		for _, a := range r.actions {
			used[a] = true
		}
	}
	require.Len(t, seen, int(states)*int(inputs))
	require.Len(t, used, int(actions)-1)
}

func renderStates() string {
	var b strings.Builder
	b.WriteString("# States of a peer\n\n")
	b.WriteString("For engineers who change the handshake. The table is made from the one in lazy/peer, which is\n" +
		"executed; `go test ./lazy/peer -run TestStates -update` rewrites it. A peer is one pair of ranks as\n" +
		"one of them sees it. HY means \"I have your address and can receive from you\", ACK means \"answer\n")
	b.WriteString("me\". Data may be sent in Up only; it may be received from Half on.\n\n")
	b.WriteString("## In any state, before the table\n\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "- %s\n", strings.ReplaceAll(r, "\n", "\n  "))
	}
	b.WriteString("\n## The table\n\n| state | event | next | what happens | why |\n|---|---|---|---|---|\n")
	for _, r := range table {
		what := make([]string, 0, len(r.actions))
		for _, a := range r.actions {
			what = append(what, a.String())
		}
		if len(what) == 0 {
			what = append(what, "-")
		}
		next := r.next.String()
		if r.next == r.state {
			next = ""
		}
		fmt.Fprintf(&b, "| %v | %v | %s | %s | %s |\n", r.state, r.input, next, strings.Join(what, "; "), r.why)
	}
	return b.String()
}

// TestStates compares docs/dev/states.md with the table.
func TestStates(t *testing.T) {
	if *update {
		require.NoError(t, os.WriteFile(statesFile, []byte(renderStates()), 0o644))
	}
	have, err := os.ReadFile(statesFile)
	require.NoError(t, err)
	require.Equal(t, renderStates(), string(have), "go test ./lazy/peer -run TestStates -update")
}
