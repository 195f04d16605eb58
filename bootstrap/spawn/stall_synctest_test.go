package spawn

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/internal/job"
)

// The start of ranks that hangs in one call of the file system is given up, with that call. Time
// outside of such calls does not count.
func TestStartIsGivenUp(t *testing.T) {
	const most = 10 * time.Second
	for _, c := range []struct {
		name  string
		calls []time.Duration // of the file system
		after time.Duration   // when it is given up; 0: it is not
	}{
		{"each call is fast", []time.Duration{most / 2, most / 2, most / 2}, 0},
		{"the second call hangs", []time.Duration{most / 2, time.Hour}, most/2 + 2*most + most},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &job.Job{Size: 2, Programs: []job.Program{{Count: 2}}, Launch: job.LaunchOptions{Timeout: most}}
				s := New(Config{Job: j, Node: job.Node{Ranks: 2}})
				began, started := time.Now(), make(chan struct{})
				failed := s.startInTime(s.ranks, func() []core.ForkFailure {
					defer close(started)
					for _, long := range c.calls {
						s.stall.at("open", "/pipe")
						time.Sleep(long)
						s.stall.at("", "")
						time.Sleep(2 * most)
					}
					return nil
				})
				if c.after == 0 {
					require.Empty(t, failed)
				} else {
					why := "open /pipe: it has not returned for 10s; hint: does its file system answer on that node? " +
						"--launch-timeout allows more"
					require.Equal(t, []core.ForkFailure{{Rank: 0, Code: 126, Cause: why}, {Rank: 1, Code: 126, Cause: why}}, failed)
					require.InDelta(t, c.after, time.Since(began), float64(most/10))
				}
				require.Equal(t, c.after == 0, s.stall.allow(s.ranks[0], nil))
				<-started
			})
		})
	}
}
