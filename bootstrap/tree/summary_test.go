package tree_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/tree/timingtest"
	"ibrun/internal/job"
)

func TestSpansAreCutWhereMomentsAreKnown(t *testing.T) {
	n := &timingtest.Made(1, "flat:7ms,60ms").Nodes[0]
	want := []tree.Span{{tree.Connect, 0, 20e6}, {tree.Authenticate, 20e6, 30e6}, {tree.Begin, 30e6, 40e6},
		{tree.Ship, 40e6, 50e6}, {tree.Order, 50e6, 60e6}, {tree.Spawn, 60e6, 65e6}, {tree.Below, 65e6, 69e6}}
	require.Equal(t, want, n.Spans())
	for _, m := range []job.Moment{job.Connecting, job.Authenticating, job.Shipping} {
		n.At[m] = job.Never
	}
	require.Equal(t, []tree.Span{{tree.Connect, 0, 30e6}, {tree.Begin, 30e6, 50e6}}, n.Spans()[:2])
	failed := job.NewNodeTimes(3)
	failed.Mark(job.SessionStarted, 5)
	require.Empty(t, (&tree.Node{NodeTimes: failed}).Spans())
}

func TestSummary(t *testing.T) {
	l := timingtest.Made(64, "kary:4:7ms,172ms")
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
	var back tree.Summary
	require.NoError(t, json.Unmarshal(b.Bytes(), &back))
	require.Equal(t, s, back)
}
