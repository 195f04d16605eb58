package daemons

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

var failed = job.Status{Kind: job.Exited, Code: 3}

// last is the Ended among effects; there is one at most.
func last(t *testing.T, effects []Effect) (ends *rankwire.DaemonEnds) {
	t.Helper()
	for i := range effects {
		if effects[i].Do == Ended {
			require.Nil(t, ends)
			ends = &effects[i].Ends
		}
	}
	return ends
}

// Of more failures than a message may have those with the least numbers are kept, and the rest is
// counted, in whatever order they come and however they are merged.
func TestFailuresAreBounded(t *testing.T) {
	const most = rankwire.MaxFailedDaemons
	var own []uint32
	for i := range uint32(most + 10) {
		own = append(own, i)
	}
	var below, d Daemons
	below.Order(1, CallerCredit, "h", own, nil, 0, 0)
	var ends *rankwire.DaemonEnds
	for i := len(own) - 1; i >= 0; i-- {
		require.Nil(t, ends)
		ends = last(t, below.Exited(1, uint32(i), failed, ""))
	}
	require.Equal(t, most, ends.Failed.Len())
	require.Equal(t, uint32(10), ends.More)
	d.Order(1, CallerCredit, "h", nil, []Child{{0, 1}, {1, 5}, {2, 2}}, 0, 0)
	require.Empty(t, d.EndedBelow(0, 1, *ends))
	require.Empty(t, d.ChildEnded(2, true))
	ends = last(t, d.ChildEnded(1, false))
	require.Equal(t, uint32(most+10), ends.Daemons)
	require.Equal(t, [4]uint32{10, 5, 2, 125}, [4]uint32{ends.More, ends.Lost, ends.Over, uint32(ends.Code)})
	number := uint32(0)
	for f := range ends.Failed.All() {
		require.Equal(t, number, f.Number)
		number++
	}
	require.Zero(t, d.Open()+below.Open())
}

// An agent keeps no more than the credit that it has given, and gives none back for what it cannot
// pass on. What waits goes on as soon as there is credit, in the order in which it came.
func TestCredit(t *testing.T) {
	var d Daemons
	d.Order(1, 100, "h", []uint32{7}, []Child{{0, 1}}, 0, 0)
	chunk := func(number uint32, n int) Chunk { return Chunk{Number: number, Stream: 1, Data: make([]byte, n)} }
	effects := d.OutputBelow(0, 1, chunk(3, 90))
	require.Len(t, effects, 1, "less than a quarter is not given back")
	require.Empty(t, d.OutputBelow(0, 1, chunk(3, 30<<10)))
	require.Empty(t, d.Output(1, chunk(7, 5)), "behind what came before")
	require.Equal(t, "", d.LieOfOutput(0, 1, ChildCredit-90-30<<10))
	require.Equal(t, "beyond its credit", d.LieOfOutput(0, 1, ChildCredit-89-30<<10))
	effects = d.Granted(1, 30<<10)
	require.Len(t, effects, 4)
	require.Equal(t, []Do{Pass, Grant, Pass, Resume}, []Do{effects[0].Do, effects[1].Do, effects[2].Do, effects[3].Do})
	require.Equal(t, 90+30<<10, effects[1].N)
}

// The end of the job takes output for a second, and waits four for daemons to die.
func TestClose(t *testing.T) {
	var d Daemons
	d.Order(1, 0, "h", []uint32{7}, nil, 0, 0)
	require.Empty(t, d.Output(1, Chunk{Number: 7, Stream: 1, Data: make([]byte, 5)}))
	effects := d.Close(0)
	require.Equal(t, []Do{Kill, Wake}, []Do{effects[0].Do, effects[1].Do})
	require.Equal(t, time.Second, effects[1].At)
	require.Nil(t, last(t, d.Due(time.Second)))
	ends := last(t, d.Due(4*time.Second))
	require.Equal(t, uint64(5), ends.Dropped)
	require.Equal(t, uint8(125), ends.Code)
	require.Zero(t, d.Open())
}

// Input in flight is never more than the credit of its caller, all of it is given back whether the
// daemon reads or not, and an agent that claims more than it was sent lies.
func TestInput(t *testing.T) {
	var relay, node Daemons
	relay.Order(1, CallerCredit, "h", nil, []Child{{0, 1}}, 0, 0)
	node.Order(1, CallerCredit, "h", []uint32{4}, nil, 0, 0)
	piece := Input{Data: make([]byte, InputCredit/4)}
	require.Empty(t, node.Feed(1, piece), "it does not read")
	require.NotEmpty(t, node.LieOfInput(1, 1))
	relay.Reads(1)
	node.Reads(1)
	room := 0
	feed := func() {
		require.Empty(t, relay.LieOfInput(1, len(piece.Data)))
		down := relay.Feed(1, piece)
		require.Len(t, down, 1)
		require.Equal(t, Down, down[0].Do)
		for _, e := range node.Feed(1, down[0].Input) {
			room += e.N
		}
	}
	for range 4 {
		feed()
	}
	require.NotEmpty(t, relay.LieOfInput(1, 1), "beyond the credit")
	require.NotEmpty(t, node.LieOfInput(1, 1), "beyond the credit")
	taken := func(effects []Effect) {
		for _, e := range effects {
			require.Empty(t, relay.LieOfRoom(0, 1, e.N))
			for _, up := range relay.TakenBelow(0, 1, e.N) {
				require.Equal(t, Room, up.Do)
				room += up.N
			}
		}
	}
	taken(node.Taken(1, len(piece.Data)))
	require.Equal(t, InputCredit/4, room)
	taken(node.Deaf(1))
	require.Equal(t, InputCredit, room, "one that reads no more holds nobody up")
	require.NotEmpty(t, relay.LieOfRoom(0, 1, 1))
	feed()
	require.Equal(t, InputCredit+InputCredit/4, room)
	require.Empty(t, node.Taken(1, 7), "of what was given back already")
	require.NotEmpty(t, relay.LieOfRoom(1, 1, 1), "of another child")
	require.NotEmpty(t, relay.LieOfRoom(0, 2, 1), "of what was not ordered")
}
