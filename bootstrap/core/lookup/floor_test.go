package lookup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// A block lists the addresses that the ranks of one node have published. TestBlockSatisfies requires that it answers a
// question about a rank only if it has an address of that rank in epoch Ask.Least or in a later epoch.
func TestBlockSatisfies(t *testing.T) {
	b := block(3, 2, 7, 0)
	for least, want := range []bool{true, true, true, false} {
		require.Equal(t, want, satisfies(b, rankwire.Ask{Rank: 6, Least: uint16(least)}), "at least %d", least)
	}
	require.False(t, satisfies(b, about(7)), "rank 7 has not published an address")
}

// What an old start has put is forgotten where it is kept, and an answer that is on its way is not
// taken.
func TestValuesAfterARestart(t *testing.T) {
	s, l := agent(false)
	ask := rankwire.Ask{Rank: 6, Key: "k"}
	value := rankwire.Answer{Rank: 6, Key: "k", Value: []byte("old")}
	l.Ask(0, Rank(4), ask)
	l.Answered(value, false)
	require.Len(t, l.Ask(0, Rank(4), ask), 1)
	s.Floors.Raise(6, 1, job.Epoch(1, 1))
	l.Raised(0, 6, 1)
	require.Zero(t, l.cache.bytes)
	raised := ask
	raised.Least = job.Epoch(1, 1)
	require.Equal(t, []Effect{send(Neighbour(0), raised)}, l.Ask(0, Rank(4), ask))
	require.Equal(t, []Effect{send(Neighbour(0), raised)}, l.Answered(value, true))
	gone := rankwire.Answer{Rank: 6, Key: "k", What: rankwire.Failed}
	require.Equal(t, []Effect{send(Neighbour(0), raised)}, l.Answered(gone, true))
	value.Value = []byte("new")
	require.Equal(t, []Effect{send(Rank(4), value)}, l.Answered(value, false))
}

// Questions about a rank of this node wait for its new start: those for its address, for a value,
// and whether it runs.
func TestOwnRankAfterARestart(t *testing.T) {
	s, l := agent(false)
	s.Own.Of(4).Join()
	l.Publish(0, 4, tuple(2, 7))
	l.Publish(0, 5, tuple(2, 8))
	l.Put(0, 4, rankwire.Put{Key: "k", Value: []byte("old")})
	fresh := rankwire.Ask{Rank: 4, Fresh: true}
	require.Equal(t, send(Rank(4), rankwire.Wanted{}), l.Ask(0, up, fresh)[0])
	s.Floors.Raise(4, 1, job.Epoch(1, 1))
	s.Own.Of(4).Restart(1)
	require.Empty(t, l.Raised(0, 4, 1))
	require.Empty(t, l.Ask(0, up, rankwire.Ask{Rank: 4, Key: "k"}))
	require.Empty(t, l.Ask(0, Neighbour(0), about(4)))
	s.Own.Of(4).Join()
	l.Joined(4)
	out := l.Put(0, 4, rankwire.Put{Key: "k", Value: []byte("new")})
	require.Equal(t, []Effect{
		send(Rank(4), rankwire.PutDone{}), send(up, rankwire.Answer{Rank: 4, Key: "k", Value: []byte("new")}),
	}, out)
	out = l.Publish(0, 4, tuple(2, 9))
	require.Contains(t, out, send(up, rankwire.Answer{Rank: 4, Fresh: true, Value: l.ownBlock()}), "it runs")
}
