package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/tree"
)

func TestPlannedWithMeasuredCosts(t *testing.T) {
	at := around(t)
	line := []string{"--hosts", "node[1-20]", "--no-preflight", "a"}
	p := planAt(t, at, line...)
	require.Equal(t, "built in", p.Source)
	builtIn := tree.DefaultCost
	builtIn.Window = tree.MostWindow
	require.Equal(t, builtIn, p.Shape.Cost)

	costs := tree.ParseCostCache(nil)
	at.Costs = func() tree.CostCache { return costs }
	cost := tree.Cost{SEQ: 10 * time.Millisecond, REM: 40 * time.Millisecond}
	require.True(t, costs.Note("ssh", p.Site(), tree.Fit{Cost: cost, Sessions: 20, InFlight: 4, Most: 20}))
	p = planAt(t, at, line...)
	require.Equal(t, "median of 1 measurement", p.Source)
	require.Equal(t, tree.Cost{SEQ: 10 * time.Millisecond, REM: 40 * time.Millisecond, Window: tree.MostWindow},
		p.Shape.Cost)
	require.Equal(t, p.Shape.String(), p.Job.Launch.Tree)
	p = planAt(t, at, append([]string{"--tree", "greedy:1ms,2ms"}, line...)...)
	require.Equal(t, time.Millisecond, p.Shape.Cost.SEQ, "what the user says holds")
}

// A job of this machine alone makes no session, and asks for no costs.
func TestNoCostsWithoutSessions(t *testing.T) {
	at := around(t)
	at.Costs = func() tree.CostCache {
		t.Fatal("asked for")
		return tree.CostCache{}
	}
	require.Equal(t, "built in", planAt(t, at, "-n", "2", "--no-preflight", "a").Source)
}
