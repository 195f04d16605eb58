package curve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The file has the medians, and the picture both ways; one that lacks a length is an error.
func TestSave(t *testing.T) {
	dir := t.TempDir()
	file, picture := filepath.Join(dir, "curve.json"), filepath.Join(dir, "curve.svg")
	a, b := Way{Name: "one", Colour: "#111111"}, Way{Name: "other", Colour: "#222222"}
	for _, n := range Lengths(16) {
		for _, us := range []float64{3, 1, 2} {
			a.Add(n, us*float64(n))
			b.Add(n, us)
		}
	}
	require.NoError(t, Save("Title", "how", []Way{a, b}, 16, file, picture))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 6, strings.Count(string(text), `"what"`))
	require.Contains(t, string(text), "\"what\": \"one\",\n   \"bytes\": 16,\n   \"us\": 32\n")
	drawn, err := os.ReadFile(picture)
	require.NoError(t, err)
	require.Contains(t, string(drawn), "other")
	delete(b.Us, 4)
	require.EqualError(t, Save("Title", "how", []Way{a, b}, 16, file, picture), "other: no round trip of 4 bytes")
}
