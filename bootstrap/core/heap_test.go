package core

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/fabric"
	"ibrun/internal/job"
)

// What an agent keeps of the largest messages is at most twice what it received,
// with the frame itself, however small their parts are.
func TestHeap(t *testing.T) {
	const nodes = 100_000
	all := job.NewNodes(0, []job.Run{{Prefix: "n", Width: 7, Count: nodes, Ranks: 1}})
	j := &job.Job{
		ID: "j", Size: nodes, Nodes: nodes, Layout: all.Layout(), Launch: job.LaunchOptions{Tree: "kary:1"},
		Programs: []job.Program{{Count: nodes, Argv: []string{"a"}}}, Transport: job.Transport{Eager: true},
	}
	agent := func() *Core {
		c := New(Config{Here: -1})
		c.Step(0, Frame{Up, wire.Launch{Job: j, Nodes: all, Level: 1}})
		c.Step(0, ForkDone{})
		c.Step(0, ChildUp{Child: 0})
		c.Step(0, Frame{0, wire.Ready{Up: nodes - 1}})
		return c
	}
	var blocks [][]byte
	for i := range uint32(nodes) {
		b := fabric.Block{Node: i, First: i, Base: fabric.Tuple{Kind: fabric.NONE}, Ranks: make([]fabric.Entry, 1)}
		blocks = append(blocks, b.Append(nil))
	}
	var parcels []rankwire.Parcel
	for i := range 1_000_000 {
		parcels = append(parcels, rankwire.Parcel{From: job.Slot(1 + i%100), To: job.Slot(i % 2)}) // for here and elsewhere, in turn
	}
	for name, m := range map[string]struct {
		from Link
		msg  frame.Message
	}{
		"blocks down": {Up, wire.Blocks{Values: frame.NewValues(blocks...)}},
		"blocks up":   {0, wire.Blocks{Values: frame.NewValues(blocks[1:]...)}},
		"parcels":     {0, rankwire.Collect{Op: 1, What: rankwire.AllToAll, Parcels: rankwire.NewParcels(parcels...)}},
	} {
		sent := frame.Append(nil, m.msg)[4:]
		c := agent()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		got, err := wire.Vocabulary.Parse(append([]byte(nil), sent...))
		require.NoError(t, err)
		for _, e := range c.Step(0, Frame{m.from, got}) {
			require.IsType(t, Send{}, e, name)
		}
		got = nil
		runtime.GC()
		runtime.ReadMemStats(&after)
		require.LessOrEqual(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(2*len(sent)+4096), "%s: bytes for %d", name, len(sent))
		runtime.KeepAlive(c)
	}
}
