package curve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/bench/chart"
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

// Ticks do not stand on one another, and all points lie between the first and the last.
func TestTicks(t *testing.T) {
	text := func(ticks []chart.Tick) (all []string) {
		for _, t := range ticks {
			all = append(all, t.Text)
		}
		return all
	}
	require.Equal(t, []string{"1 B", "64 B", "4 KiB", "1 MiB"}, text(sizes(1<<20)))
	require.Equal(t, []string{"1 B", "64 B", "4 KiB", "256 KiB", "16 MiB"}, text(sizes(16<<20)))
	require.Equal(t, []string{"1 B"}, text(sizes(16)))
	slow := []chart.Series{{Points: []chart.Point{{X: 1, Y: 1700}, {X: 1 << 20, Y: 48000}}}}
	require.Equal(t, []string{"1 ms", "10 ms", "100 ms"}, text(trips(slow, 1<<20).Y))
	rates := text(rates(slow, 1<<20).Y)
	require.Equal(t, "1 kB/s", rates[0])
	require.Equal(t, "100 MB/s", rates[len(rates)-1])
}
