package rankwire

import (
	"fmt"
	"slices"

	"ibrun/bootstrap/frame"
)

// What a member of a session, a daemon of a tool, and its agent say to each other
// (docs/dev/decisions/0035-tools.md). A member also sends Collect and Finalize, and gets Release; ranks
// in them are members.
const (
	KindMember    frame.Kind = 105 // to a member
	KindToolPiece frame.Kind = 106 // both
	KindToolRoom  frame.Kind = 107 // both
)

// Member tells a daemon who it is, and which ranks are beside it.
type Member struct {
	Number, Size uint32
	Host         string
	Credit       uint32 // for ToolPiece, before the first ToolRoom
	Ranks        LocalRanks
}

// LocalRank is a rank of the member's node, and its process.
type LocalRank struct{ Rank, Local, PID uint32 }

// LocalRanks are those that run, in order.
type LocalRanks = frame.List[LocalRank, localRankCodec]

type localRankCodec struct{}

// ToolPiece is a piece of a message between the front end of a tool and member 0 of a session. Its
// cost in credit is Cost.
type ToolPiece struct {
	Last bool // of its message
	Data []byte
}

// ToolRoom returns credit for ToolPiece.
type ToolRoom struct{ N uint32 }

// What bounds the data of a session, in bytes.
const (
	MaxToolPiece = 32 << 10  // of a piece
	ToolCredit   = 256 << 10 // on the way, in each direction
	toolHead     = 16        // that a piece costs besides its data
)

// Cost is what a piece costs in credit.
func (m ToolPiece) Cost() uint32 { return uint32(len(m.Data)) + toolHead }

// NewLocalRanks packs ranks.
func NewLocalRanks(ranks ...LocalRank) LocalRanks {
	return frame.ListOf[LocalRank, localRankCodec](slices.Values(ranks))
}

func (Member) Kind() frame.Kind    { return KindMember }
func (ToolPiece) Kind() frame.Kind { return KindToolPiece }
func (ToolRoom) Kind() frame.Kind  { return KindToolRoom }

func (m Member) Encode(w *frame.Encoder) {
	w.U32(m.Number)
	w.U32(m.Size)
	w.Text(m.Host)
	w.U32(m.Credit)
	m.Ranks.Encode(w)
}

func (m ToolPiece) Encode(w *frame.Encoder) {
	w.Bool(m.Last)
	w.Bytes(m.Data)
}

func (m ToolRoom) Encode(w *frame.Encoder) { w.U32(m.N) }

func (localRankCodec) Encode(w *frame.Encoder, r LocalRank) {
	w.U32(r.Rank)
	w.U32(r.Local)
	w.U32(r.PID)
}

func (localRankCodec) Decode(r *frame.Decoder) LocalRank {
	return LocalRank{Rank: r.U32(), Local: r.U32(), PID: r.U32()}
}

func parseMember(r *frame.Decoder) frame.Message {
	m := Member{Number: r.U32(), Size: r.U32(), Host: r.Text(), Credit: r.U32()}
	m.Ranks = frame.DecodeList[LocalRank, localRankCodec](r, 3, nil)
	if m.Number >= m.Size {
		r.Fail(frame.ErrRange)
	}
	return m
}

// DecodeToolPiece takes a ToolPiece.
func DecodeToolPiece(r *frame.Decoder) ToolPiece {
	m := ToolPiece{Last: r.Bool(), Data: r.Bytes(MaxToolPiece)}
	if len(m.Data) == 0 && !m.Last {
		r.Fail(frame.ErrRange)
	}
	return m
}

func parseToolPiece(r *frame.Decoder) frame.Message { return DecodeToolPiece(r) }
func parseToolRoom(r *frame.Decoder) frame.Message  { return ToolRoom{r.U32()} }

func (m Member) String() string {
	return fmt.Sprintf("Member number=%d size=%d host=%s credit=%d ranks=%d", m.Number, m.Size, m.Host, m.Credit,
		m.Ranks.Len())
}
func (m ToolPiece) String() string {
	return fmt.Sprintf("ToolPiece last=%t bytes=%d", m.Last, len(m.Data))
}
func (m ToolRoom) String() string { return fmt.Sprintf("ToolRoom n=%d", m.N) }
