package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// A queue that is never empty keeps its order and does not grow: one chunk
// comes and one leaves, a thousand times, with a hundred in between.
func TestOutputQueueKeepsItsSize(t *testing.T) {
	nodes := job.NewNodes(0, []job.Run{{Prefix: "n", Count: 1, Ranks: 1}})
	c := New(Config{})
	c.Step(0, Frame{Up, wire.Launch{Job: &job.Job{Launch: job.LaunchOptions{Tree: "flat"}, Layout: nodes.Layout()}, Nodes: nodes}})
	c.Step(0, ForkDone{})
	const waiting = 100
	for i := range 1000 + waiting {
		require.Empty(t, c.Step(0, RankOutput{Stream: 1, Data: []byte{byte(i)}}))
		if i < waiting {
			continue
		}
		require.Equal(t, []Effect{
			Send{To: Up, Msg: wire.Output{Stream: 1, Data: []byte{byte(i - waiting)}}}, Resume{Stream: 1},
		}, c.Step(0, Frame{Up, wire.Grant{N: 1}}))
	}
	require.Less(t, cap(c.flow.queue), 8*waiting)
}
