package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// The window follows what sessions cost the parent's machine: it closes where they
// are dear, opens where they are cheap, and one that is slow or dear does not move
// it. A window that the user gave stays.
func TestWindowFollowsCost(t *testing.T) {
	for _, c := range []struct {
		cores     int
		batch     uint32
		rem, cost time.Duration
		want      int
	}{
		{2, 0, 280 * time.Millisecond, 70 * time.Millisecond, 8},
		{2, 0, 44 * time.Millisecond, 2200 * time.Microsecond, 40},
		{2, 5, 44 * time.Millisecond, 2200 * time.Microsecond, 5},
		{0, 0, 44 * time.Millisecond, 2200 * time.Microsecond, 16},
		{2, 0, 44 * time.Millisecond, 0, 16},
	} {
		nodes := job.NewNodes(0, []job.Run{{Prefix: "n", Width: 4, Count: 400, Ranks: 1}})
		j := &job.Job{Size: 400, Nodes: 400, Layout: nodes.Layout(), Launch: job.LaunchOptions{Tree: "flat", Batch: c.batch}}
		a := New(Config{Root: true, Here: -1, Cores: c.cores})
		inFlight, now := 0, time.Duration(0)
		began := map[Link]time.Duration{}
		step := func(ev Event) {
			for _, e := range a.Step(now, ev) {
				if s, ok := e.(StartChild); ok {
					inFlight++
					began[s.Child] = now
				}
			}
		}
		step(Begin{wire.Launch{Job: j, Nodes: nodes}})
		for l := range Link(200) {
			now = max(now, began[l]+c.rem)
			cost := c.cost
			if l == 100 {
				now, cost = now+time.Second, 9*cost
			}
			inFlight--
			step(ChildUp{Child: l, Spent: cost})
			if l > 60 && l != 100 && l < 100 || l > 180 {
				require.Equal(t, c.want, inFlight, "session %d of %+v", l, c)
			}
		}
	}
}
