package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// TestBoundsAtAThousand kills a rank, an agent, a reaper, or an agent and its reaper, and checks the time limits of
// docs/faults.md. A message takes 10 ms on each edge of the tree. The root must know of the failure within 100 ms for
// each edge between the root and the node of the killed process. All ranks ignore SIGTERM, so the job lasts until the
// grace period ends, and must end at most 1 s later. With the build tag soak there are 1,000 agents.
func TestBoundsAtAThousand(t *testing.T) {
	const hop, perHop = 10 * time.Millisecond, 100 * time.Millisecond
	nodes := min(1000, scale.nodes)
	shapes := []string{"kary:32", "kary:2", "auto"}
	for _, shape := range shapes[:scale.sample(len(shapes))] {
		for name, strike := range map[string]func(*World, uint32){
			"rank": func(w *World, node uint32) {
				a := w.agents[node]
				w.exit(a, uint32(a.rank.First), job.Status{Kind: job.Signaled, Code: 9})
			},
			"agent":            (*World).Kill,
			"reaper and agent": (*World).KillBoth,
			"reaper":           (*World).KillReaper,
		} {
			for _, node := range []uint32{0, uint32(nodes) - 1} {
				cfg := plan(nodes, 4, shape)
				cfg.Hop, cfg.Stubborn, cfg.Silent = hop, true, func(uint32) bool { return true }
				var struck, known, last time.Duration
				depth := 0
				var w *World
				cfg.Stepped = func(a *agent, _ core.Event, effects []core.Effect) {
					for _, e := range effects {
						switch e := e.(type) {
						case core.Report:
							if _, is := e.What.(wire.Fault); is && known == 0 {
								known = w.now
							}
						case core.Finish, core.Done:
							last = w.now
						}
					}
				}
				w = New(cfg)
				w.At(3*time.Second, func() {
					require.NotZero(t, w.Ready)
					struck, depth = w.now, w.agents[node].depth
					strike(w, node)
				})
				what := fmt.Sprintf("%s, %s of node %d", shape, name, node)
				require.NoError(t, w.Run(5*time.Minute), what)
				require.NotZero(t, known, what)
				require.LessOrEqual(t, known-struck, time.Duration(depth)*perHop, what)
				require.LessOrEqual(t, last-struck, cfg.Job.Launch.Grace+time.Second, what)
			}
		}
	}
}
