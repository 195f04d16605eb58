package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/frame"
	"ibrun/bootstrap/rankwire"
	"ibrun/bootstrap/wire"
	"ibrun/job"
)

// rootOfThree is a root with three children of one rank each, which are up and
// have passed two fences.
func rootOfThree(t *testing.T) *Core {
	nodes := job.NewNodes(0, []job.Run{{Prefix: "n", Width: 1, Lo: 1, Count: 3, Ranks: 1}})
	j := &job.Job{ID: "j", Size: 3, Nodes: 3, Layout: nodes.Layout(), Launch: job.LaunchOptions{Tree: "flat"}}
	c := New(Config{Root: true, Here: -1})
	c.Step(0, Begin{wire.Launch{Job: j, Nodes: nodes}})
	for l := range Link(3) {
		c.Step(0, ChildUp{Child: l})
		c.Step(0, Frame{l, wire.Ready{Up: 1}})
	}
	require.Len(t, c.children, 3)
	for op := range uint32(2) {
		for l := range Link(3) {
			c.Step(0, Frame{l, rankwire.Collect{Op: op + 1}})
		}
	}
	return c
}

// sends is what an event makes an agent send of bulk fetches.
func sends(c *Core, ev Event) (list []Send) {
	for _, e := range c.Step(0, ev) {
		if s, ok := e.(Send); ok && (s.Msg.Kind() == wire.KindBulkFetch || s.Msg.Kind() == wire.KindBulkValues) {
			list = append(list, s)
		}
	}
	return list
}

// A child that leaves while values are gathered gives nothing; a late request
// gets the values that are there; an older request than the call gets the newer ones.
func TestBulkGoesOnWithoutAChild(t *testing.T) {
	for _, leaves := range []Event{Frame{1, wire.Exit{Runs: wire.NewEndings(job.StatusRun{First: 1, Count: 1})}}, LinkLost{Link: 1, Cause: "the session ended"}} {
		c := rootOfThree(t)
		call := wire.BulkFetch{Fence: 2}
		require.Equal(t, []Send{{0, call}, {1, call}, {2, call}}, sends(c, Frame{0, call}))
		require.Empty(t, sends(c, Frame{0, call}), "once")
		require.Empty(t, sends(c, Frame{0, wire.BulkValues{Fence: 2, Values: frame.NewValues([]byte{1})}}))
		require.Empty(t, sends(c, Frame{2, wire.BulkValues{Fence: 2}}))
		all := wire.BulkValues{Fence: 2, Values: frame.NewValues([]byte{1})}
		require.Equal(t, []Send{{0, all}}, sends(c, leaves))
		require.Equal(t, []Send{{2, all}}, sends(c, Frame{2, wire.BulkFetch{Fence: 1}}))
	}
}

// What is too much for the tree stays where it is, and the values come without it.
func TestBulkOfTooMuch(t *testing.T) {
	c := rootOfThree(t)
	sends(c, Frame{0, wire.BulkFetch{Fence: 1}})
	most := make([]byte, rankwire.MaxGather-4) // which is all that a frame may have, with its length
	sends(c, Frame{0, wire.BulkValues{Fence: 1, Values: frame.NewValues(most)}})
	sends(c, Frame{1, wire.BulkValues{Fence: 1, Values: frame.NewValues(nil)}})
	require.Equal(t, []Send{{0, wire.BulkValues{Fence: 1}}}, sends(c, Frame{2, wire.BulkValues{Fence: 1}}))
}
