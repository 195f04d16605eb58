// Package chart draws lines over two logarithmic axes, in panels side by side, as a picture (SVG),
// and keeps what was measured beside it.
//
// It refuses to know what is drawn.
package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"slices"
	"strings"
)

// Point is a value at a place. Both are above 0.
type Point struct{ X, Y float64 }

// Series is one line, in a colour, in every panel that has points of it. A dashed one is a model's.
type Series struct {
	Name   string
	Colour string
	Dashed bool
	Points []Point
}

// Tick names a place on an axis.
type Tick struct {
	At   float64
	Text string
}

// Panel is one pair of axes. Ticks are in rising order; the first and last of Y bound the panel.
type Panel struct {
	Title          string
	XLabel, YLabel string
	X, Y           []Tick
	Series         []Series
}

// Measures of a picture, in its units.
const (
	panelWidth  = 400
	panelHeight = 340
	left        = 64 // of a panel, for the ticks of Y
	head        = 84
	foot        = 52
	legendStep  = 190
)

// Save writes what was measured as a file of JSON, and a picture of it.
func Save(file string, measured any, picture, title string, notes []string, panels []Panel) error {
	text, err := json.MarshalIndent(measured, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return err
	}
	var drawn bytes.Buffer
	if err := Draw(&drawn, title, notes, panels); err != nil {
		return err
	}
	return os.WriteFile(picture, drawn.Bytes(), 0o644)
}

// Draw draws panels below a title and notes.
func Draw(to io.Writer, title string, notes []string, panels []Panel) error {
	var b strings.Builder
	names := legend(panels)
	width := len(panels)*(left+panelWidth) + 24
	perRow := max(1, (width-48)/legendStep)
	top := head + 16*len(notes) + 18*((len(names)+perRow-1)/perRow)
	height := top + panelHeight + foot
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n",
		width, height, html.EscapeString(title))
	b.WriteString(`<style>text{font:12px system-ui,"Segoe UI","DejaVu Sans",sans-serif;fill:#1f2933}` +
		`.title{font-size:17px;font-weight:600}.sub{fill:#52606d}.case{font-weight:600}</style>` + "\n")
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	text(&b, 24, 32, "title", "start", title)
	for i, n := range notes {
		text(&b, 24, 52+16*float64(i), "sub", "start", n)
	}
	for i, s := range names {
		x := 24 + float64(i%perRow)*legendStep
		y := float64(58 + 16*len(notes) + 18*(i/perRow))
		stroke(&b, s, []string{fmt.Sprintf("%.0f,%.0f", x, y-4), fmt.Sprintf("%.0f,%.0f", x+22, y-4)})
		text(&b, x+28, y, "", "start", s.Name)
	}
	for i, p := range panels {
		p.draw(&b, float64(i*(left+panelWidth)+left), float64(top))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(to, b.String())
	return err
}

// legend has each series once, by its name.
func legend(panels []Panel) (list []Series) {
	for _, p := range panels {
		for _, s := range p.Series {
			if !slices.ContainsFunc(list, func(o Series) bool { return o.Name == s.Name }) {
				list = append(list, s)
			}
		}
	}
	return list
}

func (p Panel) draw(b *strings.Builder, x0, y0 float64) {
	const inner = panelWidth - 28
	x := scale(p.X, x0+12, x0+inner-12)
	y := scale(p.Y, y0+panelHeight, y0)
	text(b, x0, y0-10, "case", "start", p.Title)
	for _, t := range p.Y {
		fmt.Fprintf(b, `<line x1="%.0f" y1="%.1f" x2="%.0f" y2="%.1f" stroke="#e4e7eb"/>`+"\n",
			x0, y(t.At), x0+inner, y(t.At))
		text(b, x0-6, y(t.At)+4, "sub", "end", t.Text)
	}
	for _, t := range p.X {
		text(b, x(t.At), y0+panelHeight+18, "sub", "middle", t.Text)
	}
	text(b, x0+inner/2, y0+panelHeight+38, "sub", "middle", p.XLabel)
	text(b, x0+inner, y0-10, "sub", "end", p.YLabel)
	for _, s := range p.Series {
		var places []string
		for _, at := range s.Points {
			places = append(places, fmt.Sprintf("%.1f,%.1f", x(at.X), y(at.Y)))
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="2.6" fill="%s"/>`+"\n", x(at.X), y(at.Y), s.Colour)
		}
		stroke(b, s, places)
	}
}

// scale places values between two ends, which the first and last tick have.
func scale(ticks []Tick, from, to float64) func(float64) float64 {
	low, high := math.Log(ticks[0].At), math.Log(ticks[len(ticks)-1].At)
	return func(v float64) float64 { return from + (to-from)*(math.Log(v)-low)/(high-low) }
}

func stroke(b *strings.Builder, s Series, places []string) {
	dash := ""
	if s.Dashed {
		dash = ` stroke-dasharray="5 4"`
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.8"%s/>`+"\n",
		strings.Join(places, " "), s.Colour, dash)
}

func text(b *strings.Builder, x, y float64, class, anchor, words string) {
	fmt.Fprintf(b, `<text x="%.0f" y="%.0f" class="%s" text-anchor="%s">%s</text>`+"\n",
		x, y, class, anchor, html.EscapeString(words))
}
