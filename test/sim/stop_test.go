package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// A job that is stopped, for however long and whenever that begins, goes on as if
// nothing had been. It costs three messages on each edge: the stop, the word that
// the subtree holds it, and the end of it.
func TestStop(t *testing.T) {
	const nodes = 20
	for _, tree := range []string{"chain", "kary:2", "flat"} {
		for _, at := range []time.Duration{0, 5 * time.Millisecond, time.Second} {
			for _, long := range []time.Duration{time.Second, 90 * time.Second, 10 * time.Minute} {
				cfg := plan(nodes, 2, tree)
				cfg.Silent = func(uint32) bool { return true }
				w := New(cfg)
				w.At(at, func() { w.Stop(long) })
				stopped, left := 0, -1
				w.At(at+2*time.Second, func() { stopped = len(w.Stopped) })
				w.At(at+long+10*time.Second, func() {
					left = len(w.Stopped)
					for _, a := range w.agents {
						w.end(a, job.Status{})
					}
				})
				require.NoError(t, w.Run(time.Hour), "%s", tree)
				require.Zero(t, w.Outcome.Code, "%s at %v for %v: %+v", tree, at, long, w.Outcome.Fault)
				if long > 2*time.Second {
					require.Equal(t, nodes, stopped, "%s at %v", tree, at)
				}
				require.Zero(t, left, "ranks that are still stopped")
				require.Equal(t, 3*nodes, w.Sent[wire.KindSignal], "%s at %v for %v", tree, at, long)
			}
		}
	}
}
