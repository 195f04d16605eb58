package page

import (
	"fmt"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/timing"
	"ibrun/bootstrap/tree"
	"ibrun/job"
)

// launch is one of n nodes, each of which two others start, phase by phase.
func launch(n int) *timing.Launch {
	l := &timing.Launch{Root: "front", Launcher: "ssh", Agents: n, Ranks: 16 * n, Shape: tree.Shape{Kind: tree.Kary, K: 2, Cost: tree.DefaultCost}, Source: "built in"}
	for i := range n {
		t := job.NewNodeTimes(uint32(i))
		from := time.Duration(0)
		if i > 0 {
			t.Parent = uint32((i-1)/2) + 1
			from = l.Nodes[t.Parent-1].At[job.Got] + time.Duration(i%2)*5*time.Millisecond
		}
		for m := range job.Moments {
			t.At[m] = from + time.Duration(10*int(m)+i%7)*time.Millisecond
		}
		t.At[job.Started] = from
		l.Nodes = append(l.Nodes, timing.Node{Host: fmt.Sprintf("node%04d", i+1), NodeTimes: t})
	}
	return l
}

// seen is what the browser has laid out.
type seen struct {
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

func TestPageInABrowser(t *testing.T) {
	b := open(t)
	for _, n := range []int{4, 64, 1000} {
		name := filepath.Join(t.TempDir(), "report.html")
		require.NoError(t, os.WriteFile(name, []byte(launch(n).Page()), 0o600))
		require.Equal(t, []string{"file://" + name}, b.outside(name), "nothing but the page itself is asked for")
		var s seen
		b.script(look, &s)
		require.Equal(t, n, s.Rows)
		require.Equal(t, n*int(timing.Phases), s.Bars)
		require.Zero(t, s.Bad, "bars without area or out of the picture")
		require.Equal(t, n, s.Edges)
		require.Equal(t, n, s.Titles)
		require.Zero(t, s.Overlap, "names over each other")
		require.Equal(t, n, s.Table)
		require.LessOrEqual(t, s.Scroll, s.Width, "it fits the window")
		colours(t, b.picture())
	}
}

// outside leaves out what a page carries in itself, and the tab that the
// browser begins with.
func (b *browser) outside(name string) (asked []string) {
	for _, url := range b.show(name) {
		if !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "chrome:") {
			asked = append(asked, url)
		}
	}
	return asked
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
	for _, c := range []color.RGBA{{0x4e, 0x79, 0xa7, 255}, {0xf0, 0xa6, 0x3c, 255}, {0x9c, 0x7f, 0xc4, 255}, {0x4f, 0x9d, 0x52, 255}} {
		require.Greater(t, found[c], 20, "pixels of colour %v", c)
	}
}
