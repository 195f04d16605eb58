package report

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"

	"ibrun/bootstrap/tree"
	"ibrun/internal/job"
)

// The picture's measures, in pixels.
const (
	pictureWidth = 1200
	plotLeft     = 132
	plotRight    = 24
	headHeight   = 62
	curveHeight  = 150
	gapHeight    = 58
	mostRow      = 18
	leastRow     = 2.5
	wantedHeight = 1500 // of all rows together, while rows can be that high
	labelHeight  = 11
)

// colours of the phases: apart in hue and in lightness, on white.
var colours = [tree.Phases]string{"#4e79a7", "#f0a63c", "#9c7fc4", "#d9534f", "#7fb7c9", "#4f9d52", "#dfe8dc"}

// legend says what the phases are.
var legend = [tree.Phases]string{
	"connect", "authenticate", "start shell and agent", "ship ibrun", "send the job", "spawn ranks",
	"wait for nodes below",
}

// pictureStyle has everything that SVG and page share.
const pictureStyle = `text{font:12px system-ui,"Segoe UI","DejaVu Sans",sans-serif;fill:#1f2933}
.title{font-size:17px;font-weight:600}.sub{fill:#52606d}.tick{font-size:11px;fill:#52606d}.host{font-size:10.5px}
.grid{stroke:#e4e7eb;stroke-width:1}.axis{stroke:#9aa5b1;stroke-width:1}.edge{stroke:#a7b1bd;fill:none}
.row:hover rect{stroke:#1f2933;stroke-width:.8}.failed{fill:#b42318}
.measured{fill:none;stroke:#1f4e79;stroke-width:2}.model{fill:none;stroke:#8a94a0;stroke-width:1.6;stroke-dasharray:5 4}
`

// canvas is a picture on its way.
type canvas struct {
	strings.Builder
	scale
}

func (c *canvas) put(format string, args ...any) { fmt.Fprintf(c, format+"\n", args...) }

// text writes some text at a place; extra holds further attributes.
func (c *canvas) text(x, y float64, extra, text string) {
	c.put(`<text x="%s" y="%s"%s>%s</text>`, px(x), px(y), extra, html.EscapeString(text))
}

// line draws a straight line.
func (c *canvas) line(class string, x1, x2, y1, y2 float64) {
	c.put(`<line class="%s" x1="%s" x2="%s" y1="%s" y2="%s"/>`, class, px(x1), px(x2), px(y1), px(y2))
}

// px is a length with a tenth of a pixel.
func px(v float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
}

// picture draws the launch as an SVG: how many agents were up at what time, and
// a bar for each node, below the node that it was started by.
func picture(l *tree.Launch) string {
	row := math.Max(leastRow, math.Min(mostRow, wantedHeight/float64(max(len(l.Nodes), 1))))
	top := float64(headHeight + curveHeight + gapHeight)
	bottom := top + row*float64(len(l.Nodes)+1)
	end := l.End()
	if fit, ok := l.Fit(); ok {
		end = max(end, slices.Max(append(l.Replay(fit.Cost), 0))) // the model may be slower
	}
	c := &canvas{scale: scale{end: end, left: plotLeft, width: pictureWidth - plotLeft - plotRight}}
	c.put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %s" role="img" aria-label="%s">`,
		pictureWidth, px(bottom+34), html.EscapeString(title(l)))
	c.put("<style>%s</style>", pictureStyle)
	c.put(`<rect width="100%%" height="100%%" fill="#fff"/>`)
	c.text(16, 28, ` class="title"`, title(l))
	c.text(16, 48, ` class="sub"`, subtitle(l))
	c.curve(l, headHeight, headHeight+curveHeight)
	c.legend(top - 22)
	c.axis(top, bottom)
	c.rows(l, top, row)
	c.put("</svg>")
	return c.String()
}

func title(l *tree.Launch) string {
	last, agents := l.LastUp()
	return fmt.Sprintf("Launch of %d nodes: %d agents up after %s", l.Agents, agents,
		tree.MillisText(tree.Millis(last)))
}

func subtitle(l *tree.Launch) string {
	text := fmt.Sprintf("%d ranks, tree %s, over %s; everything settled after %s",
		l.Ranks, l.Shape.Name(), l.Launcher, tree.MillisText(tree.Millis(l.End())))
	if fit, ok := l.Fit(); ok {
		text += "; measured " + tree.CostText(fit.Cost)
	}
	return text
}

// axis draws the times, above and below.
func (c *canvas) axis(top, bottom float64) {
	for _, t := range c.ticks() {
		x := c.x(t)
		c.line("grid", x, x, top, bottom)
		c.text(x, bottom+18, ` class="tick" text-anchor="middle"`, tickText(t))
	}
	c.line("axis", c.left, c.left+c.width, bottom, bottom)
}

// curve draws how many agents were up at what time, and what the model says
// with the costs of this launch.
func (c *canvas) curve(l *tree.Launch, top, bottom float64) {
	most := float64(max(l.Agents, 1))
	y := func(n int) float64 { return bottom - (bottom-top-8)*float64(n)/most }
	for _, t := range c.ticks() {
		c.line("grid", c.x(t), c.x(t), top, bottom)
	}
	for _, n := range []int{0, l.Agents / 2, l.Agents} {
		c.text(c.left-8, y(n)+4, ` class="tick" text-anchor="end"`, fmt.Sprint(n))
	}
	c.line("axis", c.left, c.left+c.width, bottom, bottom)
	if fit, ok := l.Fit(); ok {
		c.steps("model", l.Replay(fit.Cost), y)
	}
	c.steps("measured", l.Ups(), y)
	c.text(16, top+14, ` class="sub"`, "agents up")
	c.line("measured", c.left+14, c.left+40, top+10, top+10)
	c.text(c.left+46, top+14, ` class="tick"`, "measured")
	c.line("model", c.left+14, c.left+40, top+26, top+26)
	c.text(c.left+46, top+30, ` class="tick"`, "model, with the costs of this launch")
}

// steps draws a count that grows by one at each time of a rising list.
func (c *canvas) steps(class string, at []time.Duration, y func(int) float64) {
	var path strings.Builder
	fmt.Fprintf(&path, "M%s %s", px(c.left), px(y(0)))
	for i, t := range at {
		fmt.Fprintf(&path, "H%sV%s", px(c.x(t)), px(y(i+1)))
	}
	c.put(`<path class="%s" d="%sH%s"/>`, class, path.String(), px(c.left+c.width))
}

func (c *canvas) legend(y float64) {
	x := c.left
	for p, name := range legend {
		c.put(`<rect class="key" x="%s" y="%s" width="12" height="12" rx="2" fill="%s"/>`, px(x), px(y-10), colours[p])
		c.text(x+17, y, ` class="tick"`, name)
		x += 34 + 6.3*float64(len(name))
	}
}

// rows draws the root's row and one for each node, and the lines from each
// parent to what it has started.
func (c *canvas) rows(l *tree.Launch, top, row float64) {
	at := map[job.NodeIndex]float64{0: top}
	for i := range l.Nodes {
		at[l.Nodes[i].Node+1] = top + row*float64(i+1)
	}
	thin := math.Min(1, row/12)
	for i := range l.Nodes {
		n := &l.Nodes[i]
		if n.At[job.SessionStarted] != job.Never {
			x := px(c.x(n.At[job.SessionStarted]))
			c.put(`<path class="edge" stroke-width="%.2f" d="M%s %sV%s"/>`,
				thin, x, px(at[n.Parent]+row*0.8), px(at[n.Node+1]+row/2))
		}
	}
	every := int(math.Ceil(labelHeight / row))
	name := func(i int, host string, y float64) {
		if i%every == 0 {
			c.text(c.left-8, y+row/2+3.5, ` class="host" text-anchor="end"`, shorten(host))
		}
	}
	name(0, l.Root, top)
	c.put(`<rect x="%s" y="%s" width="%s" height="%s" rx="1.5" fill="#cbd2d9"><title>%s, the root</title></rect>`,
		px(c.left), px(top+row*0.25), px(c.x(l.End())-c.left), px(row*0.5), html.EscapeString(l.Root))
	for i := range l.Nodes {
		n := &l.Nodes[i]
		y := at[n.Node+1]
		name(i+1, n.Host, y)
		c.put(`<g class="row"><title>%s</title>`, html.EscapeString(hover(n)))
		for _, s := range n.Spans() {
			height := row * 0.76
			if s.Phase == tree.Below {
				height = row * 0.4
			}
			width := math.Max(0.5, c.x(s.To)-c.x(s.From))
			c.put(`<rect class="%s" x="%s" y="%s" width="%s" height="%s" fill="%s"/>`,
				s.Phase, px(c.x(s.From)), px(y+(row-height)/2), px(width), px(height), colours[s.Phase])
		}
		if n.Up() == job.Never && n.At[job.SessionStarted] != job.Never {
			last := max(0, slices.Max(n.At[:])) // latest event of the node whose time is known
			c.text(c.x(last)+4, y+row/2+4, ` class="failed"`, "×")
		}
		c.put("</g>")
	}
}

// mostLabel is the longest name that fits before the plot.
const mostLabel = 19

func shorten(host string) string {
	if r := []rune(host); len(r) > mostLabel {
		return string(r[:mostLabel-1]) + "…"
	}
	return host
}

// hover is what a node's row says under the pointer.
func hover(n *tree.Node) string {
	text := n.Host + " from " + tree.MillisText(tree.Millis(n.At[job.SessionStarted]))
	if n.At[job.SessionStarted] == job.Never {
		return n.Host + ": not begun"
	}
	for _, s := range n.Spans() {
		text += fmt.Sprintf("\n%s: %s", legend[s.Phase], tree.MillisText(tree.Millis(s.To-s.From)))
	}
	if n.Up() == job.Never {
		text += "\nnever up"
	}
	return text
}

// scale maps the time of a launch from 0 to end to x coordinates in pixels.
type scale struct {
	end   time.Duration
	left  float64
	width float64
}

func (s scale) x(t time.Duration) float64 {
	return s.left + s.width*float64(t)/float64(max(s.end, 1))
}

// ticks returns the times of the tick marks on the x axis. The first is 0, and at most ten ticks lie between 0 and
// s.end. Their distance is 1, 2 or 5 times a power of ten.
func (s scale) ticks() (at []time.Duration) {
	step := time.Microsecond
	for i := 0; s.end/step >= 10; i++ { // 2, 5, 10, 20, ... us
		if i%3 == 1 {
			step = step / 2 * 5
		} else {
			step *= 2
		}
	}
	for t := time.Duration(0); t >= 0 && t <= s.end; t += step { // t is negative after an overflow
		at = append(at, t)
	}
	return at
}

// tickText formats the time of a tick mark without trailing zeros.
func tickText(t time.Duration) string {
	switch {
	case t == 0:
		return "0"
	case t%time.Second == 0:
		return fmt.Sprintf("%d s", t/time.Second)
	case t >= time.Second:
		return strings.TrimRight(fmt.Sprintf("%.3f", t.Seconds()), "0") + " s"
	case t%time.Millisecond == 0:
		return fmt.Sprintf("%d ms", t/time.Millisecond)
	}
	return fmt.Sprintf("%.3g ms", float64(t)/float64(time.Millisecond))
}
