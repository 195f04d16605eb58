package figure

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What Bounds prints is found again, among whatever else a benchmark prints.
func TestFigures(t *testing.T) {
	var text bytes.Buffer
	text.WriteString("a line: 3\n")
	b := Bounds{To: &text}
	b.AtMost("one: auto", 1.25, 1.2)
	text.WriteString("x (bound: at most 3): met\n")
	b.AtLeast("two", 3, 3)
	require.Equal(t, []Figure{
		{"one: auto", 1.25, "at most", 1.2, false}, {"two", 3, "at least", 3, true},
	}, Figures(text.Bytes()))
	require.Empty(t, Figures(nil))
}

// The table takes the place of the one before, and the rest of the document stays.
func TestKeep(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(page, []byte("# Figures\n"), 0o644))
	require.NoError(t, Keep(page, "make it", "one\n"))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, "# Figures\n<!-- make it -->\none\n<!-- end of make it -->\n", string(text))
	require.Equal(t, strings.Replace(string(text), "one", "two", 1)+"after\n",
		string(replace(append(text, "after\n"...), "make it", "two\n")))
	require.ErrorContains(t, Keep(t.TempDir(), "make it", ""), "directory")
}
