package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/timing"
	"ibrun/bootstrap/tree"
)

func TestPlannedWithMeasuredCosts(t *testing.T) {
	r, err := parse([]string{"--hosts", "node[1-20]", "--no-preflight", "a"})
	require.NoError(t, err)
	at := around(t)
	p, err := makePlan(r, at)
	require.NoError(t, err)
	require.Equal(t, "built in", p.source)
	builtIn := tree.DefaultCost
	builtIn.Window = tree.Window
	require.Equal(t, builtIn, p.shape.Cost)

	at.costs = timing.ParseCostCache(nil)
	cost := tree.Cost{SEQ: 10 * time.Millisecond, REM: 40 * time.Millisecond}
	require.True(t, at.costs.Note("ssh", p.site(), timing.Fit{Cost: cost, Sessions: 20, InFlight: 4, Most: 20}))
	p, err = makePlan(r, at)
	require.NoError(t, err)
	require.Equal(t, "median of 1 measurement", p.source)
	require.Equal(t, tree.Cost{SEQ: 10 * time.Millisecond, REM: 40 * time.Millisecond, Window: tree.Window}, p.shape.Cost)
	require.Equal(t, p.shape.String(), p.job.Launch.Tree)
	var text bytes.Buffer
	describe(&text, p)
	require.Contains(t, text.String(), "SEQ 10ms, REM 40ms, median of 1 measurement")

	r, err = parse([]string{"--tree", "greedy:1ms,2ms", "--hosts", "node[1-20]", "--no-preflight", "a"})
	require.NoError(t, err)
	p, err = makePlan(r, at)
	require.NoError(t, err)
	require.Equal(t, time.Millisecond, p.shape.Cost.SEQ, "what the user says holds")
}
