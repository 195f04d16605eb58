package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/internal/job"
)

// started is what the root was told of a complete launch.
func started(t *testing.T, w *World) core.LaunchDone {
	for _, r := range w.Reports {
		if s, ok := r.(core.LaunchDone); ok {
			return s
		}
	}
	require.FailNow(t, "no launch was completed")
	return core.LaunchDone{}
}

// A launch that is timed costs one Times on each edge besides what it costs
// anyway, and the root has all moments of all nodes, to within a message's time.
func TestTimesOfEveryNode(t *testing.T) {
	for _, shape := range shapes {
		for _, n := range []int{1, 2, 9, 100} {
			cfg := plan(n, 1, shape)
			cfg.Job.Launch.Timed = true
			cfg.Hop, cfg.Run = 3*time.Millisecond, time.Second
			w := New(cfg)
			require.NoError(t, w.Run(time.Hour))
			require.Equal(t, map[frame.Kind]int{wire.KindLaunch: n, wire.KindTimes: n, wire.KindReady: n,
				wire.KindExit: n}, withoutHeartbeats(w.Sent))
			s := started(t, w)
			require.Zero(t, s.Missing)
			require.Len(t, s.Times, n)
			up := map[job.NodeIndex]time.Duration{0: 0}
			for i, at := range s.Times {
				require.Equal(t, job.NodeIndex(i), at.Node)
				require.Contains(t, up, at.Parent, "parents come before their children")
				require.GreaterOrEqual(t, at.At[job.SessionStarted], up[at.Parent]-time.Microsecond)
				require.Equal(t, cfg.Session, at.At[job.LaunchSent]-at.At[job.SessionStarted])
				// Both ways take as long here, so the middle is right.
				require.InDelta(t, float64(at.At[job.LaunchSent]+cfg.Hop), float64(at.At[job.LaunchReceived]),
					float64(10*time.Microsecond))
				require.InDelta(t, float64(at.At[job.ReadySent]+cfg.Hop), float64(at.At[job.ReadyReceived]),
					float64(10*time.Microsecond))
				require.GreaterOrEqual(t, at.Error, cfg.Hop)
				require.LessOrEqual(t, at.At[job.RanksStarted], at.At[job.ReadySent])
				up[at.Node+1] = at.At[job.LaunchReceived]
			}
		}
	}
}

func withoutHeartbeats(sent map[frame.Kind]int) map[frame.Kind]int {
	delete(sent, wire.KindHeartbeat)
	return sent
}

// A launch that fails is shown as far as it came.
func TestTimesOfAFailedLaunch(t *testing.T) {
	cfg := plan(8, 1, "flat")
	cfg.Job.Launch.Timed = true
	cfg.Silent = func(uint32) bool { return true }
	cfg.Takes = func(_, host string) (time.Duration, bool) { return cfg.Session, host != cfg.Nodes.At(5).Host }
	w := New(cfg)
	require.NoError(t, w.Run(time.Minute))
	require.Len(t, w.Outcome.Times, 8)
	for i, at := range w.Outcome.Times {
		require.Equal(t, i != 5, at.At[job.LaunchSent] != job.Never, "node %d", i)
		require.Equal(t, i != 5, at.At[job.ReadySent] != job.Never, "node %d", i)
	}
}
