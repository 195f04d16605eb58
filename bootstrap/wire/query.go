package wire

import (
	"fmt"

	"ibrun/bootstrap/frame"
	"ibrun/bootstrap/rankwire"
)

// The frames of control (docs/dev/decisions/0025-control.md).
const (
	KindQuery frame.Kind = 76 // down
	KindReply frame.Kind = 77 // up
)

// Query asks the ranks of a subtree something. ID is the root's, counted from 1.
type Query struct {
	ID uint32
	rankwire.Question
}

// Reply answers a Query, for the whole subtree. It comes once, and not after the Query's time but
// for the way.
type Reply struct {
	ID uint32
	rankwire.Standings
}

func (Query) Kind() frame.Kind { return KindQuery }
func (Reply) Kind() frame.Kind { return KindReply }

func (m Query) Encode(w *frame.Encoder) {
	w.U32(m.ID)
	m.Question.Encode(w)
}

func (m Reply) Encode(w *frame.Encoder) {
	w.U32(m.ID)
	m.Standings.Encode(w)
}

func parseQuery(r *frame.Decoder) frame.Message {
	return Query{ID: r.U32(), Question: rankwire.DecodeQuestion(r)}
}

func parseReply(r *frame.Decoder) frame.Message {
	return Reply{ID: r.U32(), Standings: rankwire.DecodeStandings(r)}
}

func (m Query) String() string {
	return fmt.Sprintf("Query id=%d what=%d rows=%d ranks=%d", m.ID, m.What, m.Rows, m.Ranks.Len())
}

func (m Reply) String() string {
	return fmt.Sprintf("Reply id=%d nodes=%d silent=%d groups=%d rows=%d", m.ID, m.Nodes, m.Silent, m.Groups.Len(),
		m.Rows.Len())
}
