package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The picture is well formed whatever things are called. Larger values are higher and to the right,
// equal ratios equally far apart.
func TestDraw(t *testing.T) {
	axis := []Tick{{1, "1"}, {10, "10"}, {100, "100"}}
	var b strings.Builder
	require.NoError(t, Draw(&b, "a <title> & more", []string{"a note"}, []Panel{
		{Title: "one", X: axis, Y: axis, Series: []Series{
			{Name: "ours", Colour: "#111111", Points: []Point{{1, 1}, {10, 10}, {100, 100}}},
			{Name: "theirs", Colour: "#222222", Dashed: true, Points: []Point{{10, 1}}},
		}},
		{Title: "two", X: axis, Y: axis, Series: []Series{{Name: "ours", Colour: "#111111", Points: []Point{{1, 1}}}}},
	}))
	text := b.String()
	for dec := xml.NewDecoder(strings.NewReader(text)); ; {
		_, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	require.Equal(t, 5, strings.Count(text, "<circle "))
	require.Equal(t, 1, strings.Count(text, ">ours<"), "once in the legend")
	require.Contains(t, text, "a &lt;title&gt; &amp; more")
	at := scale(axis, 0, 200)
	require.InDelta(t, 0, at(1), 1e-9)
	require.InDelta(t, 100, at(10), 1e-9)
	require.InDelta(t, 200, at(100), 1e-9)
}
