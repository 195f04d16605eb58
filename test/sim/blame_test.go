package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/job"
)

// In a chain of 16 nodes rank 0, next to the root, aborts because rank 15, at
// the end, has died: the abort is heard of first, the death is named.
func TestWhoIsToBlame(t *testing.T) {
	const abortAt = time.Second
	abort := wire.Fault{What: wire.FaultAbort, Rank: 0, Status: job.Status{Code: 7}}
	killed, crashed := job.Status{Kind: job.Signaled, Code: 9}, job.Status{Kind: job.Signaled, Code: 11}
	for _, c := range []struct {
		name   string
		status job.Status
		after  time.Duration // from the abort to the end of rank 15
		late   bool          // its agent hears of its end 50 us later
		death  bool          // is to be named
	}{
		{name: "just before", status: crashed, after: -5 * time.Microsecond, death: true},
		{name: "before word of the end came", status: crashed, after: 5 * time.Microsecond, death: true},
		{name: "seen after word of the end came", status: killed, after: 0, late: true, death: true},
		{name: "not by our hand, but maybe because of it", status: crashed, after: 0, late: true},
		{name: "after word of the end came", status: crashed, after: 50 * time.Microsecond},
		{name: "with a code", status: job.Status{Code: 3}, after: 0},
	} {
		cfg := plan(16, 1, "chain")
		cfg.Silent = func(uint32) bool { return true }
		w := New(cfg)
		w.At(abortAt, func() { w.Say(0, 0, wire.Abort{Code: 7}) })
		w.At(abortAt+c.after, func() {
			a := w.agents[15]
			if !c.late {
				w.exit(a, 15, c.status)
				return
			}
			delete(a.alive, 15)
			w.post(50*time.Microsecond, a, core.RankExited{Rank: 15, Status: c.status})
			w.post(50*time.Microsecond, a, core.RankDrained{Rank: 15})
		})
		over := false
		w.At(abortAt+time.Millisecond, func() { over = w.Outcome != nil })
		require.NoError(t, w.Run(time.Minute), c.name)
		o := w.Outcome
		want := abort
		if c.death {
			want = wire.Fault{What: wire.FaultRank, Rank: 15, Status: c.status}
		}
		require.Equal(t, want.What, o.Fault.What, c.name)
		require.Equal(t, want.Rank, o.Fault.Rank, c.name)
		require.Equal(t, want.Status.ExitCode(), o.Code, c.name)
		require.Equal(t, o.Fault, o.Faults[0], c.name)
		require.Equal(t, []wire.Fault{o.Fault}, w.faults(), "%s: people are told of one", c.name)
		require.True(t, over, "%s: the end does not wait", c.name)
	}
}

// The rank that aborts may end itself by a signal; it has aborted all the same.
func TestAbortBySignal(t *testing.T) {
	cfg := plan(3, 1, "flat")
	cfg.Silent = func(uint32) bool { return true }
	w := New(cfg)
	w.At(time.Second, func() {
		w.Say(1, 1, wire.Abort{Code: 7})
		w.exit(w.agents[1], 1, job.Status{Kind: job.Signaled, Code: 6})
	})
	require.NoError(t, w.Run(time.Minute))
	require.Equal(t, 7, w.Outcome.Code)
}

// People are told of an abort before the job is over, if that takes long.
func TestAbortIsTold(t *testing.T) {
	cfg := plan(3, 1, "flat")
	cfg.Silent = func(uint32) bool { return true }
	w := New(cfg)
	w.At(time.Second, func() {
		w.Freeze(2, 5*time.Second)
		w.Say(1, 1, wire.Abort{Code: 7})
	})
	told := 0
	w.At(1400*time.Millisecond, func() { require.Empty(t, w.faults()) })
	w.At(1600*time.Millisecond, func() { told = len(w.faults()); require.Nil(t, w.Outcome) })
	require.NoError(t, w.Run(time.Minute))
	require.Equal(t, 1, told)
	require.Len(t, w.faults(), 1)
}

// faults are the failures that people were told of, so far.
func (w *World) faults() (list []wire.Fault) {
	for _, r := range w.Reports {
		if f, ok := r.(wire.Fault); ok {
			list = append(list, f)
		}
	}
	return list
}
