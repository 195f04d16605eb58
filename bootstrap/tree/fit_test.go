package tree_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/tree/timingtest"
	"ibrun/internal/job"
)

// What a launch was made with is what is found, in every shape.
func TestFitFindsWhatALaunchWasMadeWith(t *testing.T) {
	for _, shape := range []string{"flat:7ms,172ms", "kary:3:7ms,172ms", "two-level:3ms,90ms", "binomial:20ms,30ms",
		"greedy:13ms,485ms", "flat:7ms,172ms,16", "greedy:1ms,300ms,4", "greedy:30ms,300ms,16"} {
		for _, n := range []int{2, 15, 64, 511} {
			l := timingtest.Made(n, shape)
			fit, ok := l.Fit()
			require.True(t, ok)
			require.Equal(t, l.Shape.Cost.Window, fit.Window)
			if fit.Window == 0 {
				require.Equal(t, n, fit.Sessions)
			}
			require.InDelta(t, float64(l.Shape.Cost.SEQ), float64(fit.SEQ), 1000, "%s %d", shape, n)
			require.InDelta(t, float64(l.Shape.Cost.REM), float64(fit.REM), 1000, "%s %d", shape, n)
			up := l.Replay(fit.Cost)
			require.Len(t, up, n)
			require.InDelta(t, float64(l.Shape.Makespan(n+1)), float64(up[n-1]), 1e6, "%s %d", shape, n)
		}
	}
}

// A fifth of the nodes ten times slower moves neither constant by a quarter.
func TestFitIsRobust(t *testing.T) {
	l := timingtest.Made(100, "flat:7ms,172ms")
	for i := range l.Nodes {
		if i%5 == 2 {
			l.Nodes[i].At[job.LaunchSent] += 9 * 172 * time.Millisecond
		}
	}
	fit, _ := l.Fit()
	require.InEpsilon(t, 7e6, float64(fit.SEQ), 0.25)
	require.InEpsilon(t, 172e6, float64(fit.REM), 0.25)
}

// Sessions that a parent begins at once come up one after the other, in any order.
func TestFitOfSessionsThatShareTheirParent(t *testing.T) {
	l := timingtest.Made(6, "flat:7ms,172ms")
	for i, turn := range []int{3, 5, 0, 4, 1, 2} {
		l.Nodes[i].At[job.SessionStarted] = 0
		l.Nodes[i].At[job.LaunchSent] = time.Duration(turn)*12*time.Millisecond + 60*time.Millisecond
	}
	fit, _ := l.Fit()
	require.Equal(t, tree.Cost{SEQ: 12 * time.Millisecond, REM: 60 * time.Millisecond}, fit.Cost)
	require.Equal(t, 6, fit.InFlight)
}

// A machine that stands still for four seconds while sessions come up does not
// have the next launch planned as a chain.
func TestFitOfAMachineThatStoodStill(t *testing.T) {
	l := timingtest.Made(16, "flat:1ms,100ms,16")
	for i := range l.Nodes {
		l.Nodes[i].At[job.SessionStarted] = 0
		l.Nodes[i].At[job.LaunchSent] = 100*time.Millisecond + time.Duration(i)*time.Millisecond
		if i%2 == 1 {
			l.Nodes[i].At[job.LaunchSent] += 4 * time.Second
		}
	}
	fit, ok := l.Fit()
	require.True(t, ok)
	require.Equal(t, 16, fit.Most)
	require.GreaterOrEqual(t, fit.REM, 100*time.Millisecond)
	require.LessOrEqual(t, fit.SEQ, fit.REM)
	next := tree.Shape{Kind: tree.Auto, Cost: fit.Cost}.Resolve(65)
	usual := tree.Cost{SEQ: time.Millisecond, REM: 100 * time.Millisecond}
	last := time.Duration(0)
	var follow func(level, n int, at time.Duration)
	follow = func(level, n int, at time.Duration) {
		last = max(last, at)
		for i, size := range next.Split(level, n) {
			follow(level+1, size, at+usual.Start(i)+usual.REM)
		}
	}
	follow(0, 65, 0)
	require.Less(t, last, time.Second, "the next launch, by sessions as they are")
}

// A small window is no reason not to remember a launch.
func TestFitCountsAllSessionsOfAParent(t *testing.T) {
	fit, _ := timingtest.Made(40, "flat:1ms,100ms,4").Fit()
	require.Equal(t, 40, fit.Most)
	require.Equal(t, 4, fit.Sessions)
}

func TestFitOfNothing(t *testing.T) {
	l := timingtest.Made(3, "chain")
	for i := range l.Nodes {
		l.Nodes[i].Local = true
	}
	_, ok := l.Fit()
	require.False(t, ok)
	_, ok = (&tree.Launch{}).Fit()
	require.False(t, ok)
	require.Empty(t, (&tree.Launch{}).Replay(tree.DefaultCost))
}

func TestWindowIsWhatWasInFlight(t *testing.T) {
	fit, _ := timingtest.Made(40, "flat:10ms,45ms").Fit()
	require.Equal(t, 5, fit.InFlight)
	require.Equal(t, 40, fit.Most)
	fit, _ = timingtest.Made(40, "kary:2:10ms,45ms").Fit()
	require.Equal(t, 2, fit.InFlight)
	require.Equal(t, 2, fit.Most)
}
