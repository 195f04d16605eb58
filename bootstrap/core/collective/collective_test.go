package collective

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/core/subtree/subtreetest"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// agent is that of subtreetest.
func agent(root bool) (*subtree.Subtree, *Collectives) {
	s := subtreetest.Agent(root)
	c := New(s, nil)
	return s, &c
}

func parcel(from, to job.Slot, value string) rankwire.Parcel {
	return rankwire.Parcel{From: from, To: to, Value: []byte(value)}
}

func collect(op uint32, parcels ...rankwire.Parcel) rankwire.Collect {
	return rankwire.Collect{Op: op, What: rankwire.AllToAll, Parcels: rankwire.NewParcels(parcels...)}
}

func part(op uint32, parcels ...rankwire.Parcel) rankwire.Release {
	return rankwire.Release(collect(op, parcels...))
}

// The reason for a failure is the first one, and names ranks.
func TestTrouble(t *testing.T) {
	for want, join := range map[string]func(*subtree.Subtree, *Collectives) []Effect{
		"rank 4 counts its collectives wrongly": func(_ *subtree.Subtree, c *Collectives) []Effect {
			return c.Join(4, collect(2))
		},
		"rank 4 sends what is another's, or for no rank": func(_ *subtree.Subtree, c *Collectives) []Effect {
			return c.Join(4, collect(1, parcel(5, 0, "")))
		},
		"rank 6 or one after it called AllToAll of root 0, others Barrier of root 0": func(
			_ *subtree.Subtree, c *Collectives) []Effect {
			c.Join(4, rankwire.Collect{Op: 1})
			return c.JoinBelow(0, 6, collect(1))
		},
		"ranks 8 to 9 ended before all had joined": func(s *subtree.Subtree, c *Collectives) []Effect {
			s.End(1, true)
			return c.Join(4, collect(1))
		},
	} {
		s, c := agent(false)
		out := join(s, c)
		out = append(out, c.Join(5, collect(1))...)
		for l := range subtree.Link(2) {
			if c.Next(l) == 1 {
				out = append(out, c.JoinBelow(l, 6+2*job.Slot(l), collect(1))...)
			}
		}
		if c.Joined(4) == 0 {
			out = append(out, c.Join(4, collect(1))...)
		}
		require.Len(t, out, 1, want)
		require.Equal(t, want, out[0].Part.Trouble)
		require.Zero(t, out[0].Part.Parcels.Len())
	}
}

// The second argument of New is a function that merges the parcels of a barrier. The root must call it as soon as both
// children have joined the barrier, and release the barrier with the merged parcel to each child.
func TestBarrierOfTheRoot(t *testing.T) {
	s, joined := subtreetest.Agent(true), 0
	c := New(s, func(p rankwire.Parcels) rankwire.Parcels {
		joined = p.Len()
		return rankwire.NewParcels(parcel(6, rankwire.Everyone, "one"))
	})
	barrier := func(p rankwire.Parcel) rankwire.Collect {
		return rankwire.Collect{Op: 1, Parcels: rankwire.NewParcels(p)}
	}
	c.JoinBelow(0, 6, barrier(parcel(6, rankwire.Everyone, "a")))
	out := c.JoinBelow(1, 8, barrier(parcel(8, rankwire.Everyone, "b")))
	require.Equal(t, 2, joined)
	one := rankwire.Release(barrier(parcel(6, rankwire.Everyone, "one")))
	require.Equal(t, []Effect{{Do: ReleaseChild, Part: one}, {Do: ReleaseChild, To: 1, Part: one}}, out)
}

// More than the tree takes fails, also where it comes together on the way down only.
func TestTooMuch(t *testing.T) {
	half := string(make([]byte, rankwire.MaxGather/2))
	_, c := agent(true)
	c.JoinBelow(0, 6, collect(1, parcel(6, 8, half)))
	out := c.JoinBelow(1, 8, collect(1, parcel(8, 8, half)))
	require.Contains(t, out[0].Part.Trouble, "AllToAll of more than 48 MB")
	require.Zero(t, out[1].Part.Parcels.Len())

	_, c = agent(false)
	c.Join(4, collect(1))
	c.Join(5, collect(1))
	c.JoinBelow(0, 6, collect(1, parcel(6, 8, half)))
	require.Empty(t, c.JoinBelow(1, 8, collect(1))[0].Part.Trouble)
	out = c.Release(part(1, parcel(0, 8, half), parcel(0, 11, "of another agent")))
	require.Empty(t, out[0].Part.Trouble, "there is nothing for the first child")
	require.Contains(t, out[1].Part.Trouble, "too much for the launch tree")
}

// When a rank is restarted, Floor(100) fails the open collectives with numbers up to 100. Rank 4 runs and must get the
// failure. Rank 5 has exited and must get no message. If a child joins one of these collectives later, its message is
// accepted and ignored.
func TestFloor(t *testing.T) {
	s, c := agent(false)
	s.Own.Of(4).Join()
	s.Own.Of(5).Join()
	failed := part(1)
	failed.Trouble = restarted
	c.Join(4, collect(1))
	c.Join(5, collect(1))
	require.Equal(t, uint32(1+floorStride), c.NextFloor())
	s.Own.Of(5).Exit(true)
	require.Equal(t, []Effect{{Do: ReleaseRank, Rank: 4, Part: failed}}, c.Floor(100))
	require.False(t, c.Awaits(1))
	require.Empty(t, c.Lie(0, collect(1)), "a child may join before it learns of the failure")
	require.Empty(t, c.JoinBelow(0, 6, collect(1)))
}

// A rank or a child that has ended before it joined does not join the same collective afterwards.
func TestJoinedOnce(t *testing.T) {
	s, c := agent(false)
	s.Own.Of(5).End(false)
	s.Rest(1, true)
	c.Join(4, collect(1))
	out := c.JoinBelow(0, 6, collect(1))
	require.Len(t, out, 1)
	c.Release(out[0].Part)
	require.Empty(t, c.open)
	require.Equal(t, "out of order", c.Lie(1, collect(1)))
	require.True(t, s.Own.Of(5).Join())
	require.Equal(t, uint32(1), c.Joined(5), "of which the next program is told")
}
