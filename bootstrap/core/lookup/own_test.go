package lookup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// both is the agent's own block when its ranks have joined and published; 0: one has not.
func both(ports ...uint32) []byte { return block(2, 1, ports...) }

var wake = Effect{Do: Wake, At: partialAfter}

// joined is an agent both of whose ranks have joined the job.
func joined() *Lookups {
	s, l := agent(false)
	for rank, p := range s.Own.All() {
		p.Join()
		l.Joined(rank)
	}
	return l
}

func end(l *Lookups, rank job.Slot, failed bool) []Effect {
	l.below.Own.Of(rank).End(failed)
	return l.RankEnded(0)
}

// A question waits until the rank has published, and then a little for the others of its node, so
// that one block serves for all.
func TestParkedUntilPublished(t *testing.T) {
	l := joined()
	require.Empty(t, l.Ask(0, up, about(4)))
	require.Empty(t, l.Publish(5*ms, 5, tuple(2, 8)), "it is not the one that is asked for")
	require.Equal(t, []Effect{send(up, found(4, both(7, 8)))}, l.Publish(6*ms, 4, tuple(2, 7)))
	require.Equal(t, job.LevelTally{Asked: 1, Own: 1}, l.Counts)

	l = joined()
	require.Empty(t, l.Publish(0, 4, tuple(2, 7)))
	require.Equal(t, []Effect{{Do: Wake, At: 15 * ms}}, l.Ask(5*ms, up, about(4)), "5 may publish soon")
	require.Equal(t, []Effect{{Do: Wake, At: 15 * ms}}, l.Due(14*ms))
	require.Equal(t, []Effect{send(up, found(4, both(7, 0)))}, l.Due(15*ms))
	require.Empty(t, l.Due(16*ms), "nothing waits")
}

// A rank that ends takes its address with it, and those who wait hear how it ended, unless its next
// program may come.
func TestEndedRanks(t *testing.T) {
	for failed, what := range map[bool]rankwire.Answered{false: rankwire.Exited, true: rankwire.Failed} {
		l := joined()
		l.Publish(0, 5, tuple(2, 8))
		l.Ask(0, up, about(4))
		require.Equal(t, []Effect{send(up, rankwire.Answer{Rank: 4, What: what})}, end(l, 4, failed))
		require.Equal(t, []Effect{send(up, found(5, both(0, 8)))}, l.Ask(0, up, about(5)))
		require.Empty(t, l.Ask(0, up, rankwire.Ask{Rank: 4, Least: 2}), "another program may join")
		l.below.Own.Of(4).Exit(failed)
		require.Equal(t, []Effect{send(up, rankwire.Answer{Rank: 4, What: what})}, l.RankEnded(0))
	}
	l := joined()
	l.Ask(0, up, about(4))
	require.Equal(t, []Effect{send(up, rankwire.Answer{Rank: 4, What: rankwire.Failed})}, l.Dropped())
	require.Empty(t, l.Dropped())
}

// The next program of a rank has an address, values and an epoch of its own.
func TestNextProgram(t *testing.T) {
	l := joined()
	l.Publish(0, 4, tuple(2, 7))
	l.Put(0, 4, rankwire.Put{Key: "k", Value: []byte("old")})
	require.Empty(t, l.Ask(0, up, rankwire.Ask{Rank: 4, Least: 2}))
	require.Empty(t, l.Ask(0, up, rankwire.Ask{Rank: 4, Key: "k", Least: 3}))
	end(l, 4, false)
	l.below.Own.Of(4).Join()
	l.Joined(4)
	end(l, 5, false)
	require.Empty(t, l.Ask(0, up, about(4)))
	require.Empty(t, l.Ask(0, up, rankwire.Ask{Rank: 4, Key: "k"}))
	require.Equal(t, []Effect{wake, wake}, l.Publish(0, 4, tuple(2, 9)), "5 may run another one, too")
	l.below.Own.Of(5).Exit(false)
	second := send(up, found(4, block(2, 2, 9, 0)))
	require.Equal(t, []Effect{second, second}, l.RankEnded(0), "also who asked for the second program")
}
