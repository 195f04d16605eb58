package cli

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each option stands in docs/cli.md with every spelling.
func TestEveryOptionIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/cli.md")
	require.NoError(t, err)
	known := map[string]bool{}
	separates := func(c rune) bool { return strings.ContainsRune(" `|,\n=[<(", c) }
	for _, w := range strings.FieldsFunc(string(text), separates) {
		known[w] = true
	}
	var names []string
	for _, k := range options() {
		names = append(names, strings.Fields(k.names)...)
	}
	for _, n := range slices.Concat(names, slices.Collect(maps.Keys(short))) {
		require.True(t, known["-"+n] || known["--"+n] || known["++"+n], n)
	}
}
