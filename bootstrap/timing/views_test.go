package timing

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/job"
)

func TestSpansAreCutWhereMomentsAreKnown(t *testing.T) {
	n := &made(1, "flat:7ms,60ms").Nodes[0]
	want := []Span{{Connect, 0, 20e6}, {Authenticate, 20e6, 30e6}, {Begin, 30e6, 40e6}, {Ship, 40e6, 50e6}, {Order, 50e6, 60e6}, {Spawn, 60e6, 65e6}, {Below, 65e6, 69e6}}
	require.Equal(t, want, n.Spans())
	for _, m := range []job.Moment{job.Connecting, job.Authenticating, job.Shipping} {
		n.At[m] = job.Never
	}
	require.Equal(t, []Span{{Connect, 0, 30e6}, {Begin, 30e6, 50e6}}, n.Spans()[:2])
	failed := job.NewNodeTimes(3)
	failed.Mark(job.SessionStarted, 5)
	require.Empty(t, (&Node{NodeTimes: failed}).Spans())
}

func TestSummary(t *testing.T) {
	l := made(64, "kary:4:7ms,172ms")
	l.Nodes[41].At[job.Authenticating] += 900 * time.Millisecond
	l.Nodes[41].At[job.Beginning] += 900 * time.Millisecond
	l.Nodes[41].At[job.Shipping], l.Nodes[41].At[job.AgentAnswered] = job.Never, job.Never
	l.Nodes[41].At[job.LaunchSent] += 900 * time.Millisecond
	l.Nodes[7].Error = 3 * time.Millisecond
	s := l.Summarize()
	require.Equal(t, 64, s.Up)
	require.Equal(t, 3.0, s.Error)
	require.Equal(t, s.Predicted.LastUp, s.LastUp, "it was made by the model")
	require.Less(t, s.Predicted.Optimum, s.Predicted.LastUp)
	require.Equal(t, "node0042", s.Slowest[0].Host)
	require.Equal(t, 64, s.Phases[0].Nodes)
	require.Equal(t, "node0042", s.Phases[0].Slowest[0])
	require.InDelta(t, 57.3, s.Phases[0].P50, 0.1)
	require.Greater(t, s.Phases[0].Max, 900.0)
	var text []string
	s.Text(func(format string, args ...any) { text = append(text, fmt.Sprintf(format, args...)) })
	all := strings.Join(text, "\n")
	require.Contains(t, all, "64 of 64 agents up after")
	require.Contains(t, all, "slowest session: node0042 from")
	require.Regexp(t, `predicted \S+ ms from SEQ 7.00 ms, REM 172 ms \(built in\)`, all)
	require.Less(t, len(text), 20)
	var b bytes.Buffer
	require.NoError(t, s.JSON(&b))
	require.Equal(t, 1, strings.Count(b.String(), "\n"))
	var back Summary
	require.NoError(t, json.Unmarshal(b.Bytes(), &back))
	require.Equal(t, s, back)
}

func TestTraceIsJSONOfEverySpan(t *testing.T) {
	l := made(64, "kary:4")
	l.Nodes[3].Host = "a\"b\\<\x01\n"
	var b bytes.Buffer
	require.NoError(t, l.Trace(&b))
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
	require.Equal(t, 1+64*int(Phases), spans)
	require.Len(t, named, 65)
	require.Equal(t, "front", named[1])
	require.Equal(t, l.Nodes[3].Host, named[5])
	require.Equal(t, "node0064", named[65])
	require.Error(t, l.Trace(full{}))
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
		l := made(n, "kary:4")
		found := elements(t, l.Picture())
		require.Equal(t, n, found["g.row"])
		require.Equal(t, n, found["path.edge"])
		for p := range Phases {
			require.Equal(t, n, found["rect."+p.String()], "%v of %d nodes", p, n)
		}
		require.Equal(t, int(Phases), found["rect.key"])
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
	require.Less(t, len(made(64, "kary:4").Picture()), 200<<10)
}

// Nothing is fetched from anywhere, and a host's name stays a name.
func TestPageIsSelfContained(t *testing.T) {
	l := made(1200, "two-level")
	l.Nodes[5].Host = `<script>alert(1)</script>"&`
	page := l.Page()
	require.NotContains(t, page, "<script")
	require.NotRegexp(t, regexp.MustCompile(`(?i)(src|href)="?(https?:|//|/)|@import|url\(`), page)
	require.Equal(t, 1, strings.Count(page, "http://"), "the name space of SVG")
	require.Contains(t, page, "&lt;script&gt;")
	require.Contains(t, page, "and 200 more")
	require.Equal(t, shownNodes, strings.Count(page[strings.Index(page, `id="nodes"`):], "<tr><td"))
}

func TestPictureOfAFailedLaunch(t *testing.T) {
	l := made(8, "flat")
	for m := job.Authenticating; m < job.Moments; m++ {
		l.Nodes[2].At[m] = job.Never
	}
	l.Nodes[7].NodeTimes = job.NewNodeTimes(7)
	found := elements(t, l.Picture())
	require.Equal(t, 1, found["text.failed"])
	require.Equal(t, 8, found["g.row"])
	require.Contains(t, l.Page(), "never")
	s := l.Summarize()
	require.Equal(t, 6, s.Up)
	elements(t, (&Launch{Agents: 3}).Picture())
}

func TestTicksAreRound(t *testing.T) {
	for _, end := range []time.Duration{1, time.Microsecond, 123 * time.Microsecond, 9 * time.Millisecond, 1537 * time.Millisecond, 61 * time.Second, time.Hour} {
		at := scale{end: end}.ticks()
		require.LessOrEqual(t, len(at), 10)
		require.Zero(t, at[0])
		if end > time.Microsecond {
			require.GreaterOrEqual(t, len(at), 2)
		}
	}
	require.Equal(t, []string{"0", "200 ms", "1.4 s", "2 s", "0.5 ms"},
		[]string{tickText(0), tickText(200 * time.Millisecond), tickText(1400 * time.Millisecond), tickText(2 * time.Second), tickText(500 * time.Microsecond)})
}
