package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
)

// TestExecMany starts daemons, the processes of ibrun ctl exec, on all nodes. That must cost one Daemons message down
// and one DaemonsEnded message up on each edge of the tree, and no further messages. A DaemonsEnded message must have
// less than 40 bytes on average. With the build tag soak there are 65,536 nodes.
func TestExecMany(t *testing.T) {
	const ppn = 4
	nodes := 4 * scale.nodes
	cfg := plan(nodes, ppn, "kary:8")
	cfg.Run = 10 * time.Second
	crossed := countCrossings(&cfg, wire.KindDaemons, wire.KindDaemonsEnded)
	w := New(cfg)
	w.At(5*time.Second, func() {
		require.Positive(t, w.Ready)
		w.Exec(flow.DaemonsAsked{ID: 7, PerRank: true, Argv: []string{"true"}})
	})
	w.complete(t, time.Hour)
	requireOnceEach(t, crossed, 2*nodes)
	require.Len(t, w.Ends, 1)
	ends := w.Ends[0]
	require.Equal(t, uint32(7), ends.ID)
	require.Equal(t, uint32(nodes*ppn), ends.Daemons)
	require.Equal(t, uint8(7), ends.Code)
	require.Zero(t, ends.Lost+ends.Over+ends.More)
	require.Equal(t, nodes*ppn/1000, ends.Failed.Len())
	failed := slices.Collect(ends.Failed.All())
	byNumber := func(a, b rankwire.FailedDaemon) int { return int(a.Number) - int(b.Number) }
	require.True(t, slices.IsSortedFunc(failed, byNumber))
	require.Equal(t, uint32(999), failed[0].Number)
	require.Less(t, w.Bytes[wire.KindDaemonsEnded], uint64(40*nodes))
	require.Equal(t, map[frame.Kind]int{wire.KindDaemons: nodes, wire.KindDaemonsEnded: nodes, wire.KindLaunch: nodes,
		wire.KindReady: nodes, wire.KindExit: nodes}, withoutHeartbeats(w.Sent))
}
