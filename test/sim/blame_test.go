package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// In a chain of 16 nodes rank 0, next to the root, aborts or exits because rank 15,
// at the end, has died: it is heard of first, the death is named.
func TestWhoIsToBlame(t *testing.T) {
	const failsAt = time.Second
	killed, crashed := job.Status{Kind: job.Signaled, Code: 9}, job.Status{Kind: job.Signaled, Code: 11}
	lost := job.Status{Kind: job.Lost} // with its agent
	for _, first := range []wire.Fault{
		{What: wire.FaultAbort, Rank: 0, Status: job.Status{Code: 7}},
		{What: wire.FaultRank, Rank: 0, Status: job.Status{Code: 7}},
	} {
		for _, c := range []struct {
			name   string
			status job.Status
			after  time.Duration // from the end of rank 0 to that of rank 15
			late   bool          // its agent hears of its end 50 us later
			told   bool          // and has told it to end meanwhile
			death  bool          // is to be named
		}{
			{name: "just before", status: crashed, after: -5 * time.Microsecond, death: true},
			{name: "before word of the end came", status: crashed, after: 5 * time.Microsecond, death: true},
			{name: "seen after word of the end came", status: killed, after: 0, late: true, told: true, death: true},
			{name: "died before word of the end came", status: crashed, after: 0, late: true, death: true},
			{name: "not by our hand, but maybe because of it", status: crashed, after: 0, late: true, told: true},
			{name: "after word of the end came", status: crashed, after: 50 * time.Microsecond, told: true},
			{name: "with a code", status: job.Status{Code: 3}, after: 0},
			{name: "agent", status: lost, after: 5 * time.Microsecond, death: true},
			{name: "agent, after word of the end came", status: lost, after: 10 * time.Microsecond, death: true},
		} {
			name := fmt.Sprintf("%s, %v", c.name, first)
			cfg := plan(16, 1, "chain")
			cfg.Silent = func(uint32) bool { return true }
			w := New(cfg)
			w.At(failsAt, func() {
				if first.What == wire.FaultAbort {
					w.FromRank(0, 0, rankwire.Abort{Code: 7})
				} else {
					w.exit(w.agents[0], 0, first.Status)
				}
			})
			w.At(failsAt+c.after, func() {
				a := w.agents[15]
				switch ev := (core.RankExited{Rank: 15, Status: c.status, Signaled: c.told}); {
				case c.status == lost:
					w.Kill(15)
				case c.late:
					delete(a.alive, 15)
					w.post(50*time.Microsecond, a, ev)
					w.post(50*time.Microsecond, a, core.RankDrained{Rank: 15})
				default:
					w.exited(a, ev)
				}
			})
			over, soon := false, time.Millisecond
			if c.status == lost {
				soon += cfg.Session // the root looks at that node
			}
			w.At(failsAt+soon, func() { over = w.Outcome != nil })
			require.NoError(t, w.Run(time.Minute), name)
			o := w.Outcome
			want := first
			if c.death {
				want = wire.Fault{What: wire.FaultRank, Rank: 15, Status: c.status}
			}
			if c.status == lost {
				want = wire.Fault{What: wire.FaultLost}
			}
			require.Equal(t, want.What, o.Fault.What, name)
			require.Equal(t, want.Rank, o.Fault.Rank, name)
			if want.What == wire.FaultLost {
				require.Equal(t, 125, o.Code, name)
			} else {
				require.Equal(t, want.Status.ExitCode(), o.Code, name)
			}
			require.Equal(t, o.Fault, o.Faults[0], name)
			require.Equal(t, []wire.Fault{o.Fault}, w.faults(), "%s: the user is told of one", name)
			require.True(t, over, "%s: the end does not wait", name)
		}
	}
}

// faults are the failures that the user was told of, so far.
func (w *World) faults() (list []wire.Fault) {
	for _, r := range w.Reports {
		if f, ok := r.(wire.Fault); ok {
			list = append(list, f)
		}
	}
	return list
}
