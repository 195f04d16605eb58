//go:build cluster

package spawn

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
)

// What a dead rank's program has said is heard, however late the agent comes to it
// and whoever else holds the other ends open.
func TestLastWords(t *testing.T) {
	const count = 2000 // more than the reader takes in at a time
	late, said := make(chan struct{}), 0
	d, rank := entered(t, func(ev Event) {
		require.IsType(t, core.RankFrame{}, ev)
		if said++; said == 1 {
			<-late
		}
	})
	program := hello(t, rank)
	var words []byte
	for range count {
		words = frame.Append(words, rankwire.Later{})
	}
	write(t, program, string(words))
	time.AfterFunc(3*lastWords, func() { close(late) })
	d.drain()
	d.close()
	require.Equal(t, 1+count, said)
}

// A program that has ended is done, however late the agent comes to its last words: the next one is
// let in.
func TestNextProgramWaits(t *testing.T) {
	events, late := make(chan Event, 100), make(chan struct{})
	_, rank := entered(t, func(ev Event) {
		if ev == Event(core.RankFrame{Rank: 3, Msg: rankwire.Finalize{}}) {
			<-late
		}
		events <- ev
	})
	first := hello(t, rank)
	write(t, first, string(frame.Append(nil, rankwire.Finalize{})))
	require.NoError(t, first.Close())
	second := hello(t, rank)
	time.AfterFunc(5*lastWords, func() { close(late) })
	for _, m := range []frame.Message{rankwire.Hello{}, rankwire.Finalize{}, rankwire.Hello{}} {
		require.Equal(t, core.RankFrame{Rank: 3, Msg: m}, next(t, events))
	}
	require.NoError(t, second.Close())
}
