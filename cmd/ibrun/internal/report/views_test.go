package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/tree/timingtest"
	"ibrun/internal/job"
)

func TestTraceIsJSONOfEverySpan(t *testing.T) {
	l := timingtest.Made(64, "kary:4")
	l.Nodes[3].Host = "a\"b\\<\x01\n"
	var b bytes.Buffer
	require.NoError(t, Trace(l, &b))
	var events []map[string]any
	require.NoError(t, json.Unmarshal(b.Bytes(), &events))
	spans, named := 0, map[float64]string{}
	for _, e := range events {
		for _, key := range []string{"name", "ph", "ts", "pid", "tid"} {
			require.Contains(t, e, key)
		}
		switch e["ph"] {
		case "X":
			spans++
			require.Contains(t, e, "dur")
			require.GreaterOrEqual(t, e["dur"], 0.0)
		case "M":
			if e["name"] == "process_name" {
				named[e["pid"].(float64)] = e["args"].(map[string]any)["name"].(string)
			}
		default:
			require.Fail(t, "kind of event", e["ph"])
		}
	}
	require.Equal(t, 1+64*int(tree.Phases), spans)
	require.Len(t, named, 65)
	require.Equal(t, "front", named[1])
	require.Equal(t, l.Nodes[3].Host, named[5])
	require.Equal(t, "node0064", named[65])
	require.Error(t, Trace(l, full{}))
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

// elements counts what an XML text has, by name and class.
func elements(t *testing.T, text string) map[string]int {
	found := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if err == io.EOF {
			return found
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok {
			name := e.Name.Local
			for _, a := range e.Attr {
				if a.Name.Local == "class" {
					name += "." + a.Value
				}
			}
			found[name]++
		}
	}
}

func TestPictureHasABarForEverySpan(t *testing.T) {
	for _, n := range []int{1, 4, 64, 1000} {
		l := timingtest.Made(n, "kary:4")
		found := elements(t, picture(l))
		require.Equal(t, n, found["g.row"])
		require.Equal(t, n, found["path.edge"])
		for p := range tree.Phases {
			require.Equal(t, n, found["rect."+p.String()], "%v of %d nodes", p, n)
		}
		require.Equal(t, int(tree.Phases), found["rect.key"])
		require.Equal(t, 1, found["path.measured"])
		require.Equal(t, 1, found["path.model"])
		require.Equal(t, n+1, found["title"], "a hover for each row and the root's")
		require.LessOrEqual(t, found["text.tick"], 40)
		if n <= 64 {
			require.Equal(t, n+1, found["text.host"])
		} else {
			require.Less(t, found["text.host"], n/3, "names do not run into each other")
		}
	}
	require.Less(t, len(picture(timingtest.Made(64, "kary:4"))), 200<<10)
}

// Nothing is fetched from anywhere, and a host's name stays a name.
func TestPageIsSelfContained(t *testing.T) {
	l := timingtest.Made(1200, "two-level")
	l.Nodes[5].Host = `<script>alert(1)</script>"&`
	page := Page(l)
	require.NotContains(t, page, "<script")
	require.NotRegexp(t, regexp.MustCompile(`(?i)(src|href)="?(https?:|//|/)|@import|url\(`), page)
	require.Equal(t, 1, strings.Count(page, "http://"), "the name space of SVG")
	require.Contains(t, page, "&lt;script&gt;")
	require.Contains(t, page, "and 200 more")
	require.Equal(t, shownNodes, strings.Count(page[strings.Index(page, `id="nodes"`):], "<tr><td"))
}

func TestPictureOfAFailedLaunch(t *testing.T) {
	l := timingtest.Made(8, "flat")
	for m := job.Authenticating; m < job.Moments; m++ {
		l.Nodes[2].At[m] = job.Never
	}
	l.Nodes[7].NodeTimes = job.NewNodeTimes(7)
	found := elements(t, picture(l))
	require.Equal(t, 1, found["text.failed"])
	require.Equal(t, 8, found["g.row"])
	require.Contains(t, Page(l), "never")
	s := l.Summarize()
	require.Equal(t, 6, s.Up)
	elements(t, picture(&tree.Launch{Agents: 3}))
}

func TestTicksAreRound(t *testing.T) {
	for _, end := range []time.Duration{
		1, time.Microsecond, 123 * time.Microsecond, 9 * time.Millisecond, 1537 * time.Millisecond,
		61 * time.Second, time.Hour,
	} {
		at := scale{end: end}.ticks()
		require.LessOrEqual(t, len(at), 10)
		require.Zero(t, at[0])
		if end > time.Microsecond {
			require.GreaterOrEqual(t, len(at), 2)
		}
	}
	require.Equal(t, []string{"0", "200 ms", "1.4 s", "2 s", "0.5 ms"}, []string{
		tickText(0), tickText(200 * time.Millisecond), tickText(1400 * time.Millisecond),
		tickText(2 * time.Second), tickText(500 * time.Microsecond),
	})
}
