package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// places finds a child of the root, an inner node and a leaf of a tree of depth three.
func places(t *testing.T, cfg Config) map[string]uint32 {
	w, found := New(cfg), map[string]uint32{}
	w.At(10*time.Second, func() {
		for node, a := range w.agents {
			name := map[bool]string{true: "inner node", false: "leaf"}[len(a.children) > 0]
			switch {
			case a.depth == 1:
				name = "child of the root"
			case name == "leaf" && a.depth < 3:
				continue
			}
			if before, ok := found[name]; !ok || node < before {
				found[name] = node
			}
		}
		w.Interrupt(15)
	})
	require.NoError(t, w.Run(time.Minute))
	require.Len(t, found, 3, "places")
	return found
}

// Faults of one node at each place of a tree of depth three, with a fan-out of 2 and of 32, in each
// phase: the job ends in time with that node as the cause, and nothing is left.
func TestFaultsByPlace(t *testing.T) {
	const noticed = 10*time.Second + 3*time.Second // of a cut: a look each second, and a probe
	for _, size := range []struct {
		shape string
		nodes int
	}{{"kary:2", 14}, {"kary:32", 32 + 32*32 + 64}}[:scale.sample(2)] {
		cfg := plan(size.nodes, 1, size.shape)
		cfg.Silent = func(uint32) bool { return true }
		for place, node := range places(t, cfg) {
			for _, fault := range []struct {
				name string
				do   func(w *World)
				most time.Duration // until all is over
			}{
				{"agent killed", func(w *World) { w.Kill(node) }, 4 * time.Second},
				{"reaper and agent killed", func(w *World) { w.KillBoth(node) }, 5 * time.Second},
				{"reaper killed", func(w *World) { w.KillReaper(node) }, 4 * time.Second},
				{"cut off", func(w *World) { w.Cut(node, true, true, Forever) }, noticed + 5*time.Second},
			} {
				for _, phase := range []string{"launch", "running", "ending"} {
					w := New(cfg)
					struck := time.Duration(0)
					strike := func() { struck = w.Now(); fault.do(w) }
					switch phase {
					case "launch":
						var look func()
						look = func() { // as soon as its agent has begun
							if w.Agent(node) {
								strike()
							} else {
								w.At(w.Now()+time.Millisecond, look)
							}
						}
						w.At(0, look)
					case "running":
						w.At(10*time.Second, strike)
					case "ending":
						w.At(10*time.Second, func() { w.Interrupt(2) })
						w.At(10*time.Second+time.Microsecond, strike)
					}
					name := []any{"%s, %s, %s: %s", size.shape, place, phase, fault.name}
					require.NoError(t, w.Run(5*time.Minute), name...)
					require.LessOrEqual(t, w.Now()-struck, fault.most, name...)
					if phase == "ending" {
						require.Equal(t, 130, w.Outcome.Code, name...)
						continue
					}
					require.Equal(t, 125, w.Outcome.Code, name...)
					require.Equal(t, wire.FaultLost, w.Outcome.Fault.What, name...)
					require.Equal(t, job.NodeIndex(node), w.Outcome.Fault.Node, name...)
				}
			}
		}
	}
}
