package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/timing"
	"ibrun/bootstrap/tree"
	"ibrun/job"
)

// twentyNodes is a flat launch of so many nodes, with a session a centisecond.
func twentyNodes() *timing.Launch {
	l := &timing.Launch{Launcher: "ssh"}
	for i := range 20 {
		n := timing.Node{NodeTimes: job.NewNodeTimes(job.NodeIndex(i))}
		n.Mark(job.SessionStarted, time.Duration(i)*10*time.Millisecond)
		n.Mark(job.LaunchSent, time.Duration(i)*10*time.Millisecond+40*time.Millisecond)
		l.Nodes = append(l.Nodes, n)
	}
	return l
}

func TestCostsAreKeptAndPlannedWith(t *testing.T) {
	cache := t.TempDir()
	name := costFile([]string{"HOME=/nowhere", "XDG_CACHE_HOME=" + cache})
	require.Equal(t, filepath.Join(cache, "ibrun", "costs.json"), name)
	r, err := parse([]string{"--hosts", "node[1-20]", "--no-preflight", "a"})
	require.NoError(t, err)
	at := around(t)
	p, err := makePlan(r, at)
	require.NoError(t, err)
	require.Equal(t, "built in", p.source)
	builtIn := tree.DefaultCost
	builtIn.Window = tree.Window
	require.Equal(t, builtIn, p.shape.Cost)

	noteCosts(name, p, twentyNodes())
	at.costs = readCostCache(name)
	p, err = makePlan(r, at)
	require.NoError(t, err)
	require.Equal(t, "median of 1 measurement", p.source)
	require.Equal(t, tree.Cost{SEQ: 10 * time.Millisecond, REM: 40 * time.Millisecond, Window: tree.Window}, p.shape.Cost)
	require.Equal(t, p.shape.String(), p.job.Launch.Tree)
	var text bytes.Buffer
	describe(&text, p)
	require.Contains(t, text.String(), "SEQ 10ms, REM 40ms, median of 1 measurement")
	text.Reset()
	showCosts(&text, name)
	require.Regexp(t, `ssh +node +1 +20 +10ms +40ms +4`, text.String())

	r, err = parse([]string{"--tree", "greedy:1ms,2ms", "--hosts", "node[1-20]", "--no-preflight", "a"})
	require.NoError(t, err)
	p, err = makePlan(r, at)
	require.NoError(t, err)
	require.Equal(t, time.Millisecond, p.shape.Cost.SEQ, "what the user says holds")
	left, err := os.ReadDir(filepath.Dir(name))
	require.NoError(t, err)
	require.Len(t, left, 1, "no temporary file stays")
}

// A cache that cannot be used is none, and nobody is told.
func TestCostsThatCannotBeKept(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("\x00garbage"), 0o600))
	p := &plan{nodes: job.NewNodes(0, []job.Run{{Prefix: "node", Count: 1}})}
	noteCosts(filepath.Join(file, "ibrun", "costs.json"), p, twentyNodes())
	noteCosts("", p, twentyNodes())
	require.Empty(t, readCostCache(file).Places)
	require.Empty(t, readCostCache(dir).Places)
	require.Empty(t, readCostCache(filepath.Join(dir, "none")).Places)
	noteCosts(file, p, twentyNodes())
	require.Len(t, readCostCache(file).Places, 1, "garbage is replaced")
	require.Empty(t, costFile([]string{"XDG_CACHE_HOME=relative"}))
	require.Equal(t, "/h/.cache/ibrun/costs.json", costFile([]string{"XDG_CACHE_HOME=relative", "HOME=/h"}))
	var text bytes.Buffer
	showCosts(&text, "")
	require.Contains(t, text.String(), "no launch was measured yet")
}
