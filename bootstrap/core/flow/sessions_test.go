package flow

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// withSession returns the Tools of an agent on the node own, with session 1. members has the number of members on each
// node of the job, and children has the node of each child.
func withSession(root bool, own job.NodeIndex, members []uint32, children ...job.NodeIndex) *Tools {
	nodes := job.NewNodes(0, []job.Run{{Prefix: "n", Width: 1, Count: uint32(len(members)), Ranks: 1}})
	below := &subtree.Subtree{Root: root, Launched: true, Layout: nodes.Layout()}
	if !root {
		below.Own.Open(job.Slot(own), 1)
	}
	for range children {
		below.Adopt()
	}
	below.Route(func(l subtree.Link) job.Parts {
		at := int(children[l])
		return job.Parts{{First: children[l], Nodes: nodes.Slice(at, at+1)}}
	})
	t := New(below)
	var spans []wire.MemberSpan
	for i, n := range members {
		if n > 0 {
			spans = append(spans, wire.MemberSpan{Nodes: wire.NodeSpan{First: job.NodeIndex(i), Count: 1}, Each: n})
		}
	}
	at := Place{Host: "h", Index: own, Running: true, Forked: true, Settled: func(subtree.Link) bool { return true }}
	t.FromParent(at, wire.Session{ID: 1, Members: wire.NewMemberSpans(spans...), Argv: rankwire.NewStrings("tool")})
	return &t
}

// agent returns the Tools of an agent with three children. Members 2 and 3 are on its node unless it is the root. The
// children have members 4 to 6, no member, and member 7.
func agent(root bool) *Tools { return withSession(root, 1, []uint32{2, 2, 3, 0, 1}, 2, 3, 4) }

func collect(op uint32) rankwire.Collect { return rankwire.Collect{Op: op} }

func collectBelow(op uint32) wire.SessionCollect {
	return wire.SessionCollect{ID: 1, Part: collect(op)}
}

func (t *Tools) member(number job.Slot, m frame.Message) []subtree.Effect {
	return append([]subtree.Effect(nil), t.Step(t.at, MemberFrame{1, number, m})...)
}

// The message by which a child joins a collective is rejected if the child has not joined the preceding collective, or
// if the child's subtree has no member of the session.
func TestLie(t *testing.T) {
	s := agent(false)
	require.Empty(t, s.ChildLie(0, collectBelow(1), nil))
	require.Equal(t, "out of order", s.ChildLie(0, collectBelow(3), nil))
	require.Equal(t, "of what was not ordered there", s.ChildLie(1, collectBelow(1), nil))
}

// A collective fails if a member that has not joined it ends, or if a child that has not joined it ends or reports the
// end of its members. The error names the members. A collective also fails if a member sends a parcel in the name of
// another member.
func TestEnds(t *testing.T) {
	for want, end := range map[string]func(*Tools) []subtree.Effect{
		"member 3 ended before it joined": func(s *Tools) []subtree.Effect {
			return s.Step(s.at, DaemonExited{ID: 1, Number: 3})
		},
		"members 4 to 6 ended before all had joined": func(s *Tools) []subtree.Effect {
			return s.FromChild(0, wire.DaemonsEnded{ID: 1})
		},
		"member 7 ended before all had joined":             func(s *Tools) []subtree.Effect { return s.ChildEnded(2, false) },
		"member 2 sends what is another's, or for no rank": nil,
	} {
		s, m := agent(false), collect(1)
		var out []subtree.Effect
		if end == nil {
			m.Parcels = rankwire.NewParcels(rankwire.Parcel{From: 3, To: 0})
		} else {
			out = append(out, end(s)...)
		}
		out = append(out, s.member(2, m)...)
		out = append(out, s.member(3, collect(1))...)
		if want[:8] != "members " {
			out = append(out, s.FromChild(0, collectBelow(1))...)
		}
		if want[:8] != "member 7" {
			out = append(out, s.FromChild(2, collectBelow(1))...)
		}
		require.Len(t, out, 1, want)
		require.Contains(t, sent[wire.SessionCollect](out)[0].Part.Trouble, want)
	}
}

// Only member 0 may send data to the caller, and only within its credit. A member that violates this is killed with all
// other members of its node. Credit from the caller is passed to member 0. Messages of an ended session are ignored.
func TestPieces(t *testing.T) {
	piece := rankwire.ToolPiece{Last: true, Data: make([]byte, rankwire.MaxToolPiece)}
	up := func(m frame.Message) []subtree.Effect { return []subtree.Effect{subtree.Send{To: subtree.Up, Msg: m}} }
	killed := []subtree.Effect{KillDaemons{1}}
	s := withSession(false, 0, []uint32{1, 1}, 1)
	var credit uint32 = rankwire.ToolCredit
	for ; credit >= piece.Cost(); credit -= piece.Cost() {
		require.Equal(t, up(wire.SessionPiece{ID: 1, Data: piece}), s.member(0, piece))
	}
	require.Equal(t, killed, s.member(0, piece))
	room := rankwire.ToolRoom{N: piece.Cost()}
	require.Equal(t, []subtree.Effect{TellMember{1, 0, room}}, s.FromParent(s.at, wire.SessionRoom{ID: 1, N: room.N}))
	require.Equal(t, up(wire.SessionPiece{ID: 1, Data: piece}), s.member(0, piece))
	require.Equal(t, killed, s.member(0, rankwire.Abort{}))
	require.Equal(t, "of another's member", s.ChildLie(0, wire.SessionPiece{ID: 1}, nil))

	inner := agent(false)
	require.Equal(t, killed, inner.member(2, piece))
	require.Empty(t, inner.member(2, room))
	require.Empty(t, inner.FromParent(inner.at, wire.SessionRoom{ID: 1, N: room.N}), "member 0 is not below")

	above := withSession(true, 0, []uint32{1, 1}, 0, 1)
	above.tickets[1] = 9
	require.Equal(t, []subtree.Effect{SessionReceived{9, piece}}, above.FromChild(0, wire.SessionPiece{ID: 1, Data: piece}))
	require.Equal(t, []subtree.Effect{SessionRoom{9, room.N}}, above.FromChild(0, wire.SessionRoom{ID: 1, N: room.N}))
	above.ChildEnded(0, true)
	above.ChildEnded(1, true)
	require.Empty(t, above.FromChild(0, wire.SessionPiece{ID: 1, Data: piece}))
	require.Empty(t, above.Step(above.at, MemberFrame{1, 0, collect(1)}))
}
