package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
)

// inFlight launches a job whose agents adjust their windows, and returns when the last
// session was up, and how many the root had in flight at most.
func inFlight(t *testing.T, n int, cost tree.Cost, batch uint32) (up time.Duration, most int) {
	cfg := plan(n, 1, "greedy")
	cfg.Job.Launch.LateBinding, cfg.Job.Launch.Batch, cfg.Job.Launch.Timeout = true, batch, time.Minute
	cfg.Turn, cfg.Session, cfg.Cores = cost.SEQ, cost.REM, 1
	now := 0
	cfg.Stepped = func(a *agent, ev core.Event, effects []core.Effect) {
		if a.parent != nil {
			return
		}
		if _, is := ev.(core.ChildUp); is {
			now--
		}
		for _, e := range effects {
			if _, is := e.(core.StartChild); is {
				now++
				most = max(most, now)
			}
		}
	}
	w := New(cfg)
	require.NoError(t, w.Run(time.Hour))
	require.True(t, w.Outcome.AllStarted)
	for _, kind := range []frame.Kind{wire.KindLaunch, wire.KindReady, wire.KindExit} {
		require.Equal(t, n, w.Sent[kind], kind)
	}
	require.Zero(t, w.Sent[wire.KindSteal]+w.Sent[wire.KindReturn])
	return upBy(w, ""), most
}

// Sessions that wait for half a second or one, as behind a slow directory service, wait side by
// side: a parent sees before the first is up that they need nothing of its processors. With a
// window of 16 the same launches take a fifth longer, and more.
func TestSessionsThatWait(t *testing.T) {
	for _, rem := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
		for _, n := range []int{16, 64, 128, 250} {
			cost := tree.Cost{SEQ: 3 * time.Millisecond, REM: rem}
			up, most := inFlight(t, n, cost, 0)
			best := cost.Optimum(n + 1)
			t.Logf("%d sessions of %v: up in %v, best %v, %.2f; %d in flight", n, rem, up, best, over(up, best), most)
			require.LessOrEqual(t, over(up, best), 1.05)
			if n > tree.Window {
				windowed, most := inFlight(t, n, cost, tree.Window)
				require.Equal(t, tree.Window, most)
				require.Greater(t, over(windowed, up), 1.15)
			}
		}
	}
}

// Where sessions need the parent's processor for all of the time, none is begun beyond the first
// window: more would make each of them late.
func TestSessionsThatCompute(t *testing.T) {
	for _, n := range []int{64, 250} {
		_, most := inFlight(t, n, tree.Cost{SEQ: 30 * time.Millisecond, REM: 200 * time.Millisecond}, 0)
		require.Equal(t, tree.Window, most)
	}
}

// No parent has more in flight than the bound, however long they wait.
func TestMostSessionsInFlight(t *testing.T) {
	_, most := inFlight(t, 1000, tree.Cost{SEQ: 100 * time.Microsecond, REM: 4 * time.Second}, 0)
	require.Equal(t, tree.MostWindow, most)
}
