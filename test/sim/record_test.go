package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/flight"
	"ibrun/bootstrap/frame"
	"ibrun/job"
)

// effectsOf is what agents did, to the bytes of the messages between them.
func effectsOf(now time.Duration, effects []core.Effect) (lines []string) {
	for _, e := range effects {
		line := fmt.Sprintf("%v %T", now, e)
		if s, ok := e.(core.Send); ok {
			line += fmt.Sprintf(" %d %x", s.To, frame.Append(nil, s.Msg))
		}
		lines = append(lines, line)
	}
	return lines
}

// What was recorded of any agent in a run with random faults decides the same when it is replayed:
// each effect, at its time, with its bytes. Only what ranks printed is not there.
func TestRecordsReplay(t *testing.T) {
	replayed := 0
	for seed := range uint64(scale.sample(24)) {
		c := newChaos(seed, nil)
		c.w.cfg.Job.Programs[0].Env = nil // a record has no environment
		recorders, did := map[*agent]*flight.Recorder{}, map[*agent][]string{}
		audit := c.w.cfg.Stepped
		c.w.cfg.Stepped = func(a *agent, ev core.Event, effects []core.Effect) {
			audit(a, ev, effects)
			if recorders[a] == nil {
				cfg := core.Config{Here: -1}
				if a == c.w.root {
					cfg = core.Config{Root: true, Host: "root", Here: c.w.cfg.Here, Policy: c.w.cfg.Policy}
				}
				recorders[a] = flight.New(cfg)
			}
			recorders[a].Add(c.w.now, ev, effects)
			did[a] = append(did[a], effectsOf(c.w.now, effects)...)
		}
		c.play()
		for a, r := range recorders {
			_, agents, err := flight.Open(append(flight.Header("b"), r.Bytes(a.host, job.NodeIndex(a.node))...))
			require.NoError(t, err)
			var again []string
			require.NoError(t, agents[0].Replay(join, func(s flight.Step) {
				require.False(t, s.Differs, "seed %d, agent %s at %v: %T", seed, a.host, s.At, s.Event)
				require.Zero(t, s.Gap)
				again = append(again, effectsOf(s.At, s.Effects)...)
			}))
			replayed++
			require.Equal(t, did[a], again, "seed %d, agent %s", seed, a.host)
		}
	}
	require.Greater(t, replayed, 160/scale.part)
}
