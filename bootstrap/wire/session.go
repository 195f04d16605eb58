package wire

import (
	"fmt"
	"slices"

	"ibrun/bootstrap/frame"
	"ibrun/bootstrap/rankwire"
	"ibrun/job"
)

// The frames of sessions: daemons of a tool that know each other (docs/dev/decisions/0035-tools.md).
// Output and ends are those of other daemons.
const (
	KindSession        frame.Kind = 108 // down
	KindSessionCollect frame.Kind = 109 // up
	KindSessionRelease frame.Kind = 110 // down
	KindSessionPiece   frame.Kind = 111 // both
	KindSessionRoom    frame.Kind = 112 // both
)

// Session orders members on nodes, as Daemons does daemons: the IDs of both are counted together.
type Session struct {
	ID      uint32
	Members MemberSpans
	PerRank bool // each member is beside a rank of its node, of which all have one
	Argv    rankwire.Strings
	Env     rankwire.Strings // besides that of the job's program: NAME=value
	Credit  uint32
}

// MemberSpan is nodes that have the same number of members each. Members are numbered node by node.
type MemberSpan struct {
	Nodes NodeSpan
	Each  uint32
}

// MemberSpans is a list of them, in order.
type MemberSpans = frame.List[MemberSpan, memberSpanCodec]

type memberSpanCodec struct{}

// MaxMembers is how many members a session may have, and MaxMembersOnNode how many of them on one
// node: as many as ranks.
const (
	MaxMembers       = job.MaxNodes
	MaxMembersOnNode = job.MaxRanksOnNode
)

// SessionCollect is a Collect of a session's members.
type SessionCollect struct {
	ID   uint32
	Part rankwire.Collect
}

// SessionRelease is a Release for a session's members.
type SessionRelease struct {
	ID   uint32
	Part rankwire.Release
}

// SessionPiece is ToolPiece on its way: up from member 0 to the caller, down to member 0.
type SessionPiece struct {
	ID   uint32
	Data rankwire.ToolPiece
}

// SessionRoom is ToolRoom on its way.
type SessionRoom struct{ ID, N uint32 }

// Nodes are the nodes that have members.
func (m Session) Nodes() NodeSpans {
	return frame.ListOf[NodeSpan, nodeSpanCodec](func(yield func(NodeSpan) bool) {
		for s := range m.Members.All() {
			if !yield(s.Nodes) {
				return
			}
		}
	})
}

// NewMemberSpans packs spans.
func NewMemberSpans(spans ...MemberSpan) MemberSpans {
	return frame.ListOf[MemberSpan, memberSpanCodec](slices.Values(spans))
}

func (Session) Kind() frame.Kind        { return KindSession }
func (SessionCollect) Kind() frame.Kind { return KindSessionCollect }
func (SessionRelease) Kind() frame.Kind { return KindSessionRelease }
func (SessionPiece) Kind() frame.Kind   { return KindSessionPiece }
func (SessionRoom) Kind() frame.Kind    { return KindSessionRoom }

func (m Session) Encode(w *frame.Encoder) {
	w.U32(m.ID)
	m.Members.Encode(w)
	w.Bool(m.PerRank)
	m.Argv.Encode(w)
	m.Env.Encode(w)
	w.U32(m.Credit)
}

func (m SessionCollect) Encode(w *frame.Encoder) {
	w.U32(m.ID)
	m.Part.Encode(w)
}

func (m SessionRelease) Encode(w *frame.Encoder) {
	w.U32(m.ID)
	m.Part.Encode(w)
}

func (m SessionPiece) Encode(w *frame.Encoder) {
	w.U32(m.ID)
	m.Data.Encode(w)
}

func (m SessionRoom) Encode(w *frame.Encoder) {
	w.U32(m.ID)
	w.U32(m.N)
}

func (memberSpanCodec) Encode(w *frame.Encoder, s MemberSpan) {
	nodeSpanCodec{}.Encode(w, s.Nodes)
	w.U32(s.Each)
}

func (memberSpanCodec) Decode(r *frame.Decoder) MemberSpan {
	return MemberSpan{Nodes: nodeSpanCodec{}.Decode(r), Each: r.U32()}
}

// decodeMemberSpans takes spans in order. Those that touch differ in their members.
func decodeMemberSpans(r *frame.Decoder) MemberSpans {
	members, last := uint64(0), MemberSpan{}
	return frame.DecodeList[MemberSpan, memberSpanCodec](r, 3, func(s MemberSpan) error {
		next, end := last.Nodes.End(), uint64(s.Nodes.First)+uint64(s.Nodes.Count)
		members += uint64(s.Nodes.Count) * uint64(s.Each)
		switch {
		case s.Each == 0 || s.Each > MaxMembersOnNode || end > job.MaxNodes || members > MaxMembers:
			return frame.ErrRange
		case s.Nodes.Count == 0, s.Nodes.First < next, s.Nodes.First == next && s.Each == last.Each:
			return frame.ErrCanonical
		}
		last = s
		return nil
	})
}

func parseSession(r *frame.Decoder) frame.Message {
	m := Session{ID: r.U32(), Members: decodeMemberSpans(r), PerRank: r.Bool(), Argv: rankwire.DecodeStrings(r),
		Env: rankwire.DecodeStrings(r), Credit: r.U32()}
	if m.Members.Len() == 0 || m.Argv.Len() == 0 {
		r.Fail(frame.ErrRange)
	}
	return m
}

func parseSessionCollect(r *frame.Decoder) frame.Message {
	return SessionCollect{ID: r.U32(), Part: rankwire.DecodeCollect(r)}
}

func parseSessionRelease(r *frame.Decoder) frame.Message {
	return SessionRelease{ID: r.U32(), Part: rankwire.DecodeRelease(r)}
}

func parseSessionPiece(r *frame.Decoder) frame.Message {
	return SessionPiece{ID: r.U32(), Data: rankwire.DecodeToolPiece(r)}
}

func parseSessionRoom(r *frame.Decoder) frame.Message { return SessionRoom{ID: r.U32(), N: r.U32()} }

func (m Session) String() string {
	return fmt.Sprintf("Session id=%d spans=%d ranks=%t argv=%d env=%d credit=%d", m.ID, m.Members.Len(), m.PerRank,
		m.Argv.Len(), m.Env.Len(), m.Credit)
}
func (m SessionCollect) String() string { return fmt.Sprintf("SessionCollect id=%d %v", m.ID, m.Part) }
func (m SessionRelease) String() string { return fmt.Sprintf("SessionRelease id=%d %v", m.ID, m.Part) }
func (m SessionPiece) String() string   { return fmt.Sprintf("SessionPiece id=%d %v", m.ID, m.Data) }
func (m SessionRoom) String() string    { return fmt.Sprintf("SessionRoom id=%d n=%d", m.ID, m.N) }
