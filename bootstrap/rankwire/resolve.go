package rankwire

import (
	"fmt"
	"slices"

	"ibrun/bootstrap/frame"
	"ibrun/job"
)

// Answered says what came of a question.
type Answered uint8

const (
	Found       Answered = 0 // Value is the block or the value
	Exited      Answered = 1 // the rank has ended well; it will never answer
	Failed      Answered = 2 // the rank, its agent or its node was lost
	NoRank      Answered = 3 // there is no such rank
	answerKinds Answered = 4
)

func (a Answered) String() string {
	if a >= answerKinds {
		return fmt.Sprintf("answer(%d)", uint8(a))
	}
	return [...]string{"found", "exited", "failed", "no such rank"}[a]
}

// Ask is a question: the block of the node that holds Rank, or, with a Key,
// what that rank has put on the key-value store (KVS) under it.
type Ask struct {
	Rank  job.Slot
	Key   string // at most MaxKey bytes; empty: the node's block
	Least uint16 // the least epoch of Rank that will do
	Fresh bool   // the rank itself must have answered its agent since: it runs
}

// Answer goes the way back that the question came.
type Answer struct {
	Rank  job.Slot
	Key   string
	Fresh bool
	What  Answered
	Value []byte // a block in the form of package fabric, or a value
}

// Collective names what ranks do together.
type Collective uint8

const (
	Barrier Collective = iota
	Broadcast
	Gather
	AllGather
	Scatter
	AllToAll
	Resizing // they take the next size of the job
	collectives
)

func (c Collective) String() string {
	if c >= collectives {
		return fmt.Sprintf("collective(%d)", uint8(c))
	}
	return [...]string{"Barrier", "Broadcast", "Gather", "AllGather", "Scatter", "AllToAll", "Resize"}[c]
}

// Everyone as the To of a parcel is every rank.
const Everyone = ^job.Slot(0)

// Parcel is what one rank has for another, or for everyone.
type Parcel struct {
	From, To job.Slot
	Value    []byte
}

// Parcels is a list of parcels.
type Parcels = frame.List[Parcel, parcelCodec]

type parcelCodec struct{}

// gathered is what Collect and Release carry.
type gathered struct {
	Op      uint32 // counted by each rank from 1
	What    Collective
	Root    job.Rank // of Broadcast, Gather and Scatter; otherwise 0
	Trouble string   // why it fails for all; empty: it does not
	Parcels Parcels  // of at most MaxGather bytes
}

// Collect brings a subtree's part of a collective up, or a rank's to its agent.
type Collect gathered

// Release brings the outcome down: what is for the ranks of this subtree.
type Release gathered

// Tally is what a rank or a subtree has counted. It comes before Exit.
type Tally struct{ Of *job.Tally }

// Limits of what goes through the tree.
const (
	MaxKey     = 1 << 10  // bytes of a user's key
	MaxMark    = 4        // bytes before it that say of which program's it is
	MaxValue   = 1 << 20  // bytes of a value
	MaxGather  = 48 << 20 // bytes of the parcels or values in one message, as they are in it
	maxTrouble = 1 << 10
)

func (Ask) Kind() frame.Kind     { return KindAsk }
func (Answer) Kind() frame.Kind  { return KindAnswer }
func (Collect) Kind() frame.Kind { return KindCollect }
func (Release) Kind() frame.Kind { return KindRelease }
func (Tally) Kind() frame.Kind   { return KindTally }

func (m Ask) Encode(w *frame.Encoder) {
	w.U32(uint32(m.Rank))
	w.Text(m.Key)
	w.U32(uint32(m.Least))
	w.Bool(m.Fresh)
}

func parseAsk(r *frame.Decoder) frame.Message {
	return Ask{
		Rank: job.Slot(r.U32()), Key: r.TextUpTo(MaxMark + MaxKey),
		Least: uint16(r.Uint(1<<16 - 1)), Fresh: r.Bool(),
	}
}

func (m Answer) Encode(w *frame.Encoder) {
	w.U32(uint32(m.Rank))
	w.Text(m.Key)
	w.Bool(m.Fresh)
	w.Byte(byte(m.What))
	w.Bytes(m.Value)
}

func parseAnswer(r *frame.Decoder) frame.Message {
	m := Answer{
		Rank: job.Slot(r.U32()), Key: r.TextUpTo(MaxMark + MaxKey), Fresh: r.Bool(),
		What: Answered(r.Byte()), Value: r.Bytes(MaxValue),
	}
	if m.What >= answerKinds || m.What != Found && len(m.Value) > 0 {
		r.Fail(frame.ErrRange)
	}
	return m
}

func (m Collect) Encode(w *frame.Encoder) { gathered(m).Encode(w) }
func (m Release) Encode(w *frame.Encoder) { gathered(m).Encode(w) }

func (m gathered) Encode(w *frame.Encoder) {
	w.U32(m.Op)
	w.Byte(byte(m.What))
	w.U32(uint32(m.Root))
	w.Text(m.Trouble)
	m.Parcels.Encode(w)
}

// NewParcels packs parcels.
func NewParcels(parcels ...Parcel) Parcels {
	return frame.ListOf[Parcel, parcelCodec](slices.Values(parcels))
}

func (parcelCodec) Encode(w *frame.Encoder, p Parcel) {
	w.U32(uint32(p.From))
	w.U32(uint32(p.To + 1)) // so that Everyone is one byte
	w.Bytes(p.Value)
}

func (parcelCodec) Decode(r *frame.Decoder) Parcel {
	return Parcel{From: job.Slot(r.U32()), To: job.Slot(r.U32()) - 1, Value: r.Bytes(MaxGather)}
}

func parseCollect(r *frame.Decoder) frame.Message { return DecodeCollect(r) }
func parseRelease(r *frame.Decoder) frame.Message { return DecodeRelease(r) }

// DecodeCollect and DecodeRelease take what is part of another message.
func DecodeCollect(r *frame.Decoder) Collect { return Collect(decodeGathered(r)) }
func DecodeRelease(r *frame.Decoder) Release { return Release(decodeGathered(r)) }

func decodeGathered(r *frame.Decoder) gathered {
	m := gathered{
		Op: r.U32(), What: Collective(r.Byte()), Root: job.Rank(r.U32()), Trouble: r.TextUpTo(maxTrouble),
	}
	if m.What >= collectives {
		r.Fail(frame.ErrRange)
	}
	m.Parcels = frame.DecodeList[Parcel, parcelCodec](r, 3, nil)
	if m.Parcels.Size() > MaxGather || m.Trouble != "" && m.Parcels.Len() > 0 {
		r.Fail(frame.ErrRange)
	}
	return m
}

func (m Tally) Encode(w *frame.Encoder) {
	for _, n := range m.Of.Sum {
		w.Sum(n)
	}
	w.Uint(uint64(len(m.Of.Levels)))
	for _, l := range m.Of.Levels {
		for _, n := range []uint64{l.Asked, l.Hit, l.Own, l.Merged, l.Relayed} {
			w.Sum(n)
		}
	}
	for _, n := range m.Of.Latency {
		w.U32(n)
	}
}

func parseTally(r *frame.Decoder) frame.Message {
	t := &job.Tally{}
	for i := range t.Sum {
		t.Sum[i] = r.Sum()
	}
	t.Levels = frame.DecodeSlice(r, 5, func() (l job.LevelTally) {
		for _, n := range []*uint64{&l.Asked, &l.Hit, &l.Own, &l.Merged, &l.Relayed} {
			*n = r.Sum()
		}
		return l
	})
	if len(t.Levels) > job.MaxLevels {
		r.Fail(frame.ErrRange)
	}
	for i := range t.Latency {
		t.Latency[i] = r.U32()
	}
	return Tally{t}
}

func (m Ask) String() string {
	return fmt.Sprintf("Ask rank=%d key=%q least=%d fresh=%t", m.Rank, m.Key, m.Least, m.Fresh)
}
func (m Answer) String() string {
	return fmt.Sprintf("Answer rank=%d key=%q fresh=%t %v bytes=%d", m.Rank, m.Key, m.Fresh, m.What, len(m.Value))
}
func (m Collect) String() string { return "Collect " + gathered(m).String() }
func (m Release) String() string { return "Release " + gathered(m).String() }
func (m gathered) String() string {
	return fmt.Sprintf("op=%d %v root=%d parcels=%d trouble=%q", m.Op, m.What, m.Root, m.Parcels.Len(), m.Trouble)
}
func (m Tally) String() string { return fmt.Sprintf("Tally ranks=%d", m.Of.Sum[job.CountRanks]) }
