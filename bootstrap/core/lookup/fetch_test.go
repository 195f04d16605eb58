package lookup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// learning is an agent of a job that chooses.
func learning() *Lookups {
	l := joined()
	l.Open(job.Transport{Learn: true})
	return l
}

// A small table is fetched with the first look-up. Only what own ranks ask about addresses counts.
// What waited for it is answered from it, and blocks of it take the place of those that know less.
func TestFetch(t *testing.T) {
	l := learning()
	require.Len(t, l.Ask(0, up, about(6)), 1)
	require.Len(t, l.Ask(0, Rank(4), rankwire.Ask{Rank: 0, Key: "k"}), 1)
	require.Len(t, l.Ask(0, Rank(4), rankwire.Ask{Rank: 0, Fresh: true}), 1)
	l.Answered(found(6, block(3, 1, 7, 0)), false)
	fetch := Effect{Do: Fetch, Round: 1}
	require.Equal(t, []Effect{send(up, about(0)), fetch}, l.Ask(0, Rank(4), about(0)))
	require.Equal(t, []Effect{{Do: Wake, At: tablePatience}}, l.Ask(0, Rank(5), about(7)), "it waits")
	require.Len(t, l.Ask(0, up, about(8)), 1, "neighbours do not")
	all := values(block(3, 1, 7, 8))
	require.Equal(t, []Effect{send(Rank(5), found(7, block(3, 1, 7, 8)))}, l.Fetched(0, 1, all))
}

// A table that does not come in time is not waited for, and rounds are few.
func TestFetchThatIsLate(t *testing.T) {
	l := learning()
	l.Ask(0, Rank(4), about(0))
	l.Ask(0, Rank(5), about(7))
	require.Equal(t, []Effect{send(Neighbour(0), about(7))}, l.Due(tablePatience))
	for round := uint32(1); round < maxRounds; round++ {
		require.Empty(t, l.Fetched(tablePatience, round, values()))
		l.Answered(rankwire.Answer{Rank: 0, What: rankwire.Failed}, false)
		require.Contains(t, l.Ask(tablePatience, Rank(4), about(0)), Effect{Do: Fetch, Round: round + 1})
	}
	l.Fetched(tablePatience, maxRounds, values())
	l.Answered(rankwire.Answer{Rank: 0, What: rankwire.Failed}, false)
	require.Equal(t, []Effect{send(up, about(0))}, l.Ask(tablePatience, Rank(4), about(0)))
	require.NotEmpty(t, l.FetchLie(maxRounds+1))
	require.Empty(t, l.FetchLie(maxRounds))
}

// A node gives what it knows, without waiting. After a change of size it neither gives nor takes:
// the blocks may be of nodes that have left.
func TestKnown(t *testing.T) {
	l := learning()
	require.Nil(t, l.Known(), "no rank has published")
	l.Publish(0, 5, tuple(2, 8))
	require.Equal(t, both(0, 8), l.Known())
	l.Ask(0, Rank(4), about(0))
	l.Resized(0)
	require.Nil(t, l.Known())
	l.Fetched(0, 1, values(block(3, 1, 7, 8)))
	require.Equal(t, []Effect{send(Neighbour(0), about(7))}, l.Ask(0, Rank(4), about(7)), "nor does it fetch")
}
