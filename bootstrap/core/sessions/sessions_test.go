package sessions

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// part is members of a child.
func part(first job.Slot, count uint32) job.Parts {
	return job.Parts{{Nodes: job.NewNodes(first, []job.Run{{Count: 1, Ranks: count}})}}
}

// agent has members 2 and 3, a child with 4 to 6, one without members, and one with 7.
func agent(root bool) *Sessions {
	s := New(root)
	s.Open(Group{ID: 1, Layout: job.NewLayout([]job.Share{{Nodes: 4, Ranks: 2}}), First: 2, Count: 2,
		Children: []job.Parts{part(4, 3), nil, part(7, 1)}})
	return &s
}

func collect(op uint32) rankwire.Collect { return rankwire.Collect{Op: op} }

// Lie returns a reason to reject the message by which a child joins a collective. There is a reason if the child has
// not joined the collective before it, or if the child's subtree has no member of the session.
func TestLie(t *testing.T) {
	s := agent(false)
	require.Empty(t, s.Lie(0, 1, collect(1)))
	require.Equal(t, "out of order", s.Lie(0, 1, collect(3)))
	require.Equal(t, "of what was not ordered there", s.Lie(1, 1, collect(1)))
}

// The end of a member, of a child's members or of a child fails what waits for them, with numbers.
func TestEnds(t *testing.T) {
	for want, end := range map[string]func(*Sessions) []Effect{
		"member 3 ended before it joined":                  func(s *Sessions) []Effect { return s.Exited(1, 3) },
		"members 4 to 6 ended before all had joined":       func(s *Sessions) []Effect { return s.EndedBelow(0, 1) },
		"member 7 ended before all had joined":             func(s *Sessions) []Effect { return s.ChildEnded(2) },
		"member 2 sends what is another's, or for no rank": nil,
	} {
		s, m := agent(false), collect(1)
		var out []Effect
		if end == nil {
			m.Parcels = rankwire.NewParcels(rankwire.Parcel{From: 3, To: 0})
		} else {
			out = end(s)
		}
		out = append(out, s.From(1, 2, m)...)
		out = append(out, s.From(1, 3, collect(1))...)
		if want[:8] != "members " {
			out = append(out, s.CollectBelow(0, 1, collect(1))...)
		}
		if want[:8] != "member 7" {
			out = append(out, s.CollectBelow(2, 1, collect(1))...)
		}
		require.Len(t, out, 1, want)
		require.Contains(t, out[0].Part.Trouble, want)
	}
}

// Member 0 alone talks to the caller, and within its credit; what a member may not say kills those
// of this node. What is for member 0 goes where it is.
func TestPieces(t *testing.T) {
	piece := rankwire.ToolPiece{Last: true, Data: make([]byte, rankwire.MaxToolPiece)}
	s := New(false)
	s.Open(Group{ID: 1, Layout: job.NewLayout([]job.Share{{Nodes: 2, Ranks: 1}}), Count: 1,
		Children: []job.Parts{part(1, 1)}})
	var credit uint32 = rankwire.ToolCredit
	for ; credit >= piece.Cost(); credit -= piece.Cost() {
		require.Equal(t, []Effect{{Do: Pass, ID: 1, To: subtree.Up, Msg: piece}}, s.From(1, 0, piece))
	}
	require.Equal(t, []Effect{{Do: Kill, ID: 1}}, s.From(1, 0, piece))
	room := rankwire.ToolRoom{N: piece.Cost()}
	require.Equal(t, []Effect{{Do: ToMember, ID: 1, Msg: room}}, s.Down(1, room))
	require.Equal(t, Pass, s.From(1, 0, piece)[0].Do)
	require.Equal(t, []Effect{{Do: Kill, ID: 1}}, s.From(1, 0, rankwire.Abort{}))
	require.Equal(t, "of another's member", s.LieOfPiece(0, 1))

	above := agent(true)
	require.Equal(t, []Effect{{Do: Kill, ID: 1}}, above.From(1, 2, piece))
	require.Empty(t, above.From(1, 2, room))
	require.Empty(t, above.Down(1, room), "member 0 is not below")
	for _, m := range []frame.Message{piece, room} {
		require.Equal(t, []Effect{{Do: Pass, ID: 1, To: subtree.Up, Msg: m}}, above.Up(1, m))
	}
	above.Close(1)
	require.Empty(t, above.Up(1, piece))
	require.Empty(t, above.From(1, 2, collect(1)))
}
