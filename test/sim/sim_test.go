package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/internal/job"
)

// plan is a job of n nodes with so many ranks each.
func plan(n, ranks int, shape string) Config {
	s, err := tree.Parse(shape)
	if err != nil {
		panic(err)
	}
	nodes := job.NewNodes(0, []job.Run{{Prefix: "node", Width: 6, Lo: 1, Count: uint32(n), Ranks: uint32(ranks)}})
	j := &job.Job{
		ID: "0123456789abcdef", Size: uint32(n * ranks), Nodes: uint32(n), FirstHost: "node000001",
		Programs: []job.Program{{Count: uint32(n * ranks), Argv: []string{"app"}, Env: []string{"A=b"}, Dir: "/"}},
		Launch: job.LaunchOptions{Launcher: "ssh", Tree: s.Resolve(n + 1).String(), Timeout: 15 * time.Second,
			Grace: 2 * time.Second},
	}
	j.Layout = nodes.Layout()
	return Config{Job: j, Nodes: nodes, Here: -1, Policy: core.Policy{KillOnBad: true}, Session: 10 * time.Millisecond,
		Hop: time.Microsecond, Run: time.Millisecond}
}

var shapes = []string{"flat", "chain", "kary:2", "kary:8", "binomial", "two-level", "greedy", "auto"}

// crossing identifies the messages of one kind that cross an edge of the tree in one direction. An edge has the number
// of its child node.
type crossing struct {
	edge uint32
	up   bool
	kind frame.Kind
}

// countCrossings sets cfg.Sent to a function that counts the messages of the given kinds on each edge of the tree. It
// returns the map of counts, which is empty until the job runs.
func countCrossings(cfg *Config, kinds ...frame.Kind) map[crossing]int {
	counts := map[crossing]int{}
	cfg.Sent = func(edge uint32, up bool, m frame.Message) {
		if slices.Contains(kinds, m.Kind()) {
			counts[crossing{edge, up, m.Kind()}]++
		}
	}
	return counts
}

// requireOnceEach asserts that counts has n entries, and that each of them is 1.
func requireOnceEach(t *testing.T, counts map[crossing]int, n int) {
	t.Helper()
	require.Len(t, counts, n)
	for c, times := range counts {
		require.Equal(t, 1, times, "%+v", c)
	}
}

// complete runs a job to its end. The job must end before limit with exit code 0.
func (w *World) complete(t *testing.T, limit time.Duration) {
	t.Helper()
	require.NoError(t, w.Run(limit))
	require.Equal(t, 0, w.Outcome.Code, "%+v", w.Outcome.Fault)
}

// succeed runs a job and checks that it cost exactly Launch, Ready and Exit on
// each edge, and nothing besides.
func succeed(t *testing.T, cfg Config) *World {
	t.Helper()
	crossed := countCrossings(&cfg, wire.KindLaunch, wire.KindReady, wire.KindExit)
	w := New(cfg)
	w.complete(t, time.Hour)
	n := cfg.Nodes.Len()
	require.True(t, w.Outcome.AllStarted)
	require.Equal(t, []job.StatusRun{{Count: cfg.Job.Size}}, w.Outcome.Runs)
	if w.Now() < 2*time.Second {
		require.Zero(t, w.Sent[wire.KindHeartbeat])
	}
	require.Equal(t, map[frame.Kind]int{wire.KindLaunch: n, wire.KindReady: n, wire.KindExit: n},
		withoutHeartbeats(w.Sent))
	requireOnceEach(t, crossed, 3*n)
	return w
}

func TestEveryNumberAndShape(t *testing.T) {
	for _, shape := range shapes {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			for n := 1; n <= 1200; n += scale.stride(n) {
				succeed(t, plan(n, 1, shape))
			}
		})
	}
}

func TestBudgetAtScale(t *testing.T) {
	t.Parallel()
	for _, shape := range []string{"kary:8", "two-level", "greedy"} {
		w := succeed(t, plan(scale.agents, 16, shape))
		t.Logf("%s: %d agents, depth %d, %d events, ready in %v of virtual time", shape, scale.agents, w.Depth,
			w.Events, w.Now())
	}
}

func TestRootKilled(t *testing.T) {
	cfg := plan(50, 2, "kary:2")
	cfg.Silent = func(uint32) bool { return true }
	w := New(cfg)
	w.At(time.Second, w.KillRoot)
	require.NoError(t, w.Run(time.Minute))
	require.Less(t, w.Now(), 7*time.Second)
}

// An agent that is stopped for less than a minute does no harm; for ever, it
// ends the job, and its reaper ends it, wherever it is in the tree.
func TestFrozenAgent(t *testing.T) {
	for _, c := range []struct {
		freeze time.Duration
		code   int
	}{{5 * time.Second, 0}, {50 * time.Second, 0}, {time.Hour, 125}} {
		for node := range uint32(15) {
			cfg := plan(15, 1, "kary:2")
			cfg.Run = 3 * time.Minute
			w := New(cfg)
			w.At(time.Second, func() { w.Freeze(node, c.freeze) })
			require.NoError(t, w.Run(4*time.Minute), "node %d, %v", node, c.freeze)
			require.Equal(t, c.code, w.Outcome.Code, "node %d, %v", node, c.freeze)
			if c.code == 0 {
				continue
			}
			require.Equal(t, job.NodeIndex(node), w.Outcome.Fault.Node)
			require.Contains(t, w.Outcome.Fault.Cause, "its agent has been silent for 60 s")
		}
	}
}
