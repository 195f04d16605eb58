// Package curve keeps round trips of messages of all lengths: their medians in a file, and as a
// picture. It refuses to measure.
package curve

import (
	"fmt"
	"math"

	"ibrun/test/bench/chart"
	"ibrun/test/bench/figure"
)

// Way is one way that messages go.
type Way struct {
	Name, Colour string
	Us           map[int][]float64 // of round trips, in microseconds, by the length of the message
}

// Add notes a round trip.
func (w *Way) Add(bytes int, us float64) {
	if w.Us == nil {
		w.Us = map[int][]float64{}
	}
	w.Us[bytes] = append(w.Us[bytes], us)
}

// Lengths are those that are measured: 1 byte and fourfold up to most.
func Lengths(most int) (all []int) {
	for n := 1; n <= most; n *= 4 {
		all = append(all, n)
	}
	return all
}

// point is a line of the file. Half of a round trip is not taken.
type point struct {
	What  string  `json:"what"`
	Bytes int     `json:"bytes"`
	Us    float64 `json:"us"` // a median
}

// Save writes a file of JSON and a picture in SVG. Each way must have all lengths up to most.
func Save(title, how string, ways []Way, most int, file, picture string) error {
	var all []point
	var series []chart.Series
	for _, w := range ways {
		s := chart.Series{Name: w.Name, Colour: w.Colour}
		for _, bytes := range Lengths(most) {
			if len(w.Us[bytes]) == 0 {
				return fmt.Errorf("%s: no round trip of %d bytes", w.Name, bytes)
			}
			p := point{w.Name, bytes, figure.Median(w.Us[bytes])}
			s.Points = append(s.Points, chart.Point{X: float64(bytes), Y: p.Us})
			all = append(all, p)
		}
		series = append(series, s)
	}
	measured := struct {
		Machine string  `json:"machine"`
		How     string  `json:"how"`
		Points  []point `json:"points"`
	}{figure.Machine(), how, all}
	panels := []chart.Panel{trips(series, most), rates(series, most)}
	return chart.Save(file, measured, picture, title, []string{how, measured.Machine}, panels)
}

// sizes are the ticks of messages' lengths: the first, and those that leave room for the last.
func sizes(most int) (ticks []chart.Tick) {
	for _, t := range []chart.Tick{{At: 1, Text: "1 B"}, {At: 64, Text: "64 B"}, {At: 4 << 10, Text: "4 KiB"},
		{At: 256 << 10, Text: "256 KiB"}, {At: 1 << 20, Text: "1 MiB"}, {At: 16 << 20, Text: "16 MiB"}} {
		if last := float64(most); t.At == 1 || t.At == last || 32*t.At <= last {
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// trips has microseconds of a round trip.
func trips(series []chart.Series, most int) chart.Panel {
	return chart.Panel{Title: "Round trip", XLabel: "length of a message", X: sizes(most), Series: series,
		Y: around(series, []chart.Tick{{At: 1, Text: "1 us"}, {At: 10, Text: "10 us"}, {At: 100, Text: "100 us"},
			{At: 1000, Text: "1 ms"}, {At: 1e4, Text: "10 ms"}, {At: 1e5, Text: "100 ms"}, {At: 1e6, Text: "1 s"}})}
}

// around are the ticks that the points need, one below them and one above.
func around(series []chart.Series, ticks []chart.Tick) []chart.Tick {
	low, high := math.Inf(1), 0.0
	for _, s := range series {
		for _, p := range s.Points {
			low, high = min(low, p.Y), max(high, p.Y)
		}
	}
	for len(ticks) > 2 && ticks[1].At <= low {
		ticks = ticks[1:]
	}
	for len(ticks) > 2 && ticks[len(ticks)-2].At >= high {
		ticks = ticks[:len(ticks)-1]
	}
	return ticks
}

// rates has megabytes a second, both directions counted.
func rates(series []chart.Series, most int) chart.Panel {
	p := chart.Panel{Title: "Both ways together", XLabel: "length of a message", X: sizes(most)}
	for _, s := range series {
		r := s
		r.Points = nil
		for _, at := range s.Points {
			r.Points = append(r.Points, chart.Point{X: at.X, Y: 2 * at.X / at.Y})
		}
		p.Series = append(p.Series, r)
	}
	p.Y = around(p.Series, []chart.Tick{{At: 0.001, Text: "1 kB/s"}, {At: 0.01, Text: "10 kB/s"},
		{At: 0.1, Text: "100 kB/s"}, {At: 1, Text: "1 MB/s"}, {At: 10, Text: "10 MB/s"}, {At: 100, Text: "100 MB/s"},
		{At: 1000, Text: "1 GB/s"}, {At: 1e4, Text: "10 GB/s"}})
	return p
}
