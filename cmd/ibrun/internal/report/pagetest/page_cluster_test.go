//go:build cluster

package pagetest

import (
	"fmt"
	"image/color"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/tree"
	"ibrun/cmd/ibrun/internal/report"
	"ibrun/internal/job"
)

// launch is one of n nodes, each of which two others start, phase by phase.
func launch(n int) *tree.Launch {
	l := &tree.Launch{Root: "front", Launcher: "ssh", Agents: n, Ranks: 16 * n, Shape: tree.Shape{Kind: tree.Kary,
		K: 2, Cost: tree.DefaultCost}, Source: "built in"}
	for i := range n {
		t := job.NewNodeTimes(job.NodeIndex(i))
		from := time.Duration(0)
		if i > 0 {
			t.Parent = job.NodeIndex((i-1)/2) + 1
			from = l.Nodes[t.Parent-1].At[job.LaunchReceived] + time.Duration(i%2)*5*time.Millisecond
		}
		for m := range job.Moments {
			t.At[m] = from + time.Duration(10*int(m)+i%7)*time.Millisecond
		}
		t.At[job.SessionStarted] = from
		l.Nodes = append(l.Nodes, tree.Node{Host: fmt.Sprintf("node%04d", i+1), NodeTimes: t})
	}
	return l
}

// layout is what the browser has laid out.
type layout struct {
	Rows, Bars, Bad, Edges, Titles, Overlap, Table int
	Width, Scroll                                  float64
}

const look = `
const box = e => e.getBoundingClientRect(), all = s => [...document.querySelectorAll(s)], plot = box(document.querySelector('svg'));
const names = all('text.host').map(box);
return {
  rows: all('g.row').length, bars: all('g.row rect').length, edges: all('path.edge').length, titles: all('g.row > title').length,
  bad: all('g.row rect').filter(e => { const b = box(e); return !(b.width > 0 && b.height > 0 && b.left >= plot.left && b.right <= plot.right + 1 && b.bottom <= plot.bottom) }).length,
  overlap: names.filter((b, i) => i > 0 && b.top < names[i-1].top + 5).length,
  table: all('#nodes td:first-child').length, width: innerWidth, scroll: document.documentElement.scrollWidth,
}`

// TestPageInABrowser requires that pages are laid out as they should, and ask for nothing. What else the browser
// loads, such as its own first page, does not count; what a page asks for does.
func TestPageInABrowser(t *testing.T) {
	b := open(t)
	noisy := write(t, `<script>setInterval(() => { new Image().src = 'nothing' + Math.random() }, 20)</script>`)
	b.do(http.MethodPost, "/url", map[string]any{"url": "file://" + noisy}, nil)
	for _, n := range []int{4, 1000} {
		name := write(t, report.Page(launch(n)))
		asked, others := b.outside(name)
		require.Equal(t, []string{"file://" + name}, asked, "nothing but the page itself is asked for")
		require.Positive(t, others, "the first tab was busy")
		var s layout
		b.script(look, &s)
		require.Equal(t, n, s.Rows)
		require.Equal(t, n*int(tree.Phases), s.Bars)
		require.Zero(t, s.Bad, "bars without area or out of the picture")
		require.Equal(t, n, s.Edges)
		require.Equal(t, n, s.Titles)
		require.Zero(t, s.Overlap, "names over each other")
		require.Equal(t, n, s.Table)
		require.LessOrEqual(t, s.Scroll, s.Width, "it fits the window")
		colours(t, b.picture())
	}
	const outside = "http://192.0.2.1/picture.png" // RFC 5737: nobody has this address
	name := write(t, report.Page(launch(4))+`<img src="`+outside+`">`)
	asked, _ := b.outside(name)
	require.Equal(t, []string{"file://" + name, outside}, asked)
}

// loads are the words by which a page or its style and script can ask for something else.
var loads = regexp.MustCompile(
	`(?i)[\s"'](?:src|srcset|(?:xlink:)?href|(?:form)?action|data|poster|background|cite|ping|manifest)` +
		`\s*=\s*["']?([^"'\s>]*)|` +
		`\burl\s*\(\s*["']?([^"')]*)|(@import|\bimport\s*\(|\bfetch\s*\(|XMLHttpRequest|WebSocket` +
		`|EventSource|sendBeacon|importScripts|new\s+Image|<\s*(?:iframe|object|embed))`)

// addresses are what looks like one anywhere.
var addresses = regexp.MustCompile(`\w+://[^"'\s<]*`)

// loaded are the addresses outside the page that its text names.
func loaded(page string) (all []string) {
	for _, m := range loads.FindAllStringSubmatch(page, -1) {
		if at := m[1] + m[2]; m[3] != "" || !strings.HasPrefix(at, "#") && !strings.HasPrefix(at, "data:") {
			all = append(all, m[0])
		}
	}
	return all
}

// What can be seen without a browser.
func TestPageNamesNothingOutside(t *testing.T) {
	for _, n := range []int{4, 64, 1000} {
		page := report.Page(launch(n))
		require.Empty(t, loaded(page))
		for _, at := range addresses.FindAllString(page, -1) {
			require.Equal(t, "http://www.w3.org/2000/svg", at, "the name space of SVG only")
		}
	}
	for _, bad := range []string{
		`<img src=x.png>`, `<a href="https://h/">`, `<style>p { background: url(x) }</style>`,
		`<style>@import "x"</style>`,
		`<script>fetch('/x')</script>`, `<link rel=icon href=x>`, `<use xlink:href='other.svg#a'>`,
		`<script>new WebSocket("ws:")</script>`, `<base href=x>`, `<script>new Image().src = 'x'</script>`,
	} {
		require.NotEmpty(t, loaded(bad), bad)
	}
	require.Empty(t, loaded(`<a href="#nodes"><img src="data:image/png;base64,AA=="><path data-x="1">`))
}

// write makes a file of a page.
func write(t *testing.T, page string) string {
	name := filepath.Join(t.TempDir(), "report.html")
	require.NoError(t, os.WriteFile(name, []byte(page), 0o600))
	return name
}

// outside leaves out what a page carries in itself.
func (b *browser) outside(name string) (asked []string, others int) {
	all, others := b.show(name)
	for _, url := range all {
		if !strings.HasPrefix(url, "data:") {
			asked = append(asked, url)
		}
	}
	return asked, others
}

// colours looks that the page is light, and that the picture is in colour.
func colours(t *testing.T, name string) {
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	img, err := png.Decode(f)
	require.NoError(t, err)
	found, white, all := map[color.RGBA]int{}, 0, 0
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y += 3 {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x += 3 {
			r, g, b, _ := img.At(x, y).RGBA()
			c := color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255}
			found[c]++
			all++
			if r == 0xffff && g == 0xffff && b == 0xffff {
				white++
			}
		}
	}
	require.Greater(t, white*10, all*3, "the page is light")
	for _, c := range []color.RGBA{{0x4e, 0x79, 0xa7, 255}, {0xf0, 0xa6, 0x3c, 255}, {0x9c, 0x7f, 0xc4, 255},
		{0x4f, 0x9d, 0x52, 255}} {
		require.Greater(t, found[c], 20, "pixels of colour %v", c)
	}
}
