package wire

import (
	"fmt"
	"slices"

	"ibrun/job"
)

// Answered says what came of a question.
type Answered uint8

const (
	Found   Answered = 0 // Value is the block or the value
	Exited  Answered = 1 // the rank has ended well; it will never answer
	Failed  Answered = 2 // the rank, its agent or its node was lost
	NoRank  Answered = 3 // there is no such rank
	answers Answered = 4
)

func (a Answered) String() string {
	if a >= answers {
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
	collectives
)

func (c Collective) String() string {
	if c >= collectives {
		return fmt.Sprintf("collective(%d)", uint8(c))
	}
	return [...]string{"Barrier", "Broadcast", "Gather", "AllGather", "Scatter", "AllToAll"}[c]
}

// Everyone as the To of a parcel is every rank.
const Everyone = ^job.Slot(0)

// Parcel is what one rank has for another, or for everyone.
type Parcel struct {
	From, To job.Slot
	Value    []byte
}

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

// Blocks are the node blocks of a subtree on the way up, of all nodes on the way down.
type Blocks struct{ Values Values } // of at most MaxGather bytes

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

func (Ask) Kind() Kind     { return KindAsk }
func (Answer) Kind() Kind  { return KindAnswer }
func (Collect) Kind() Kind { return KindCollect }
func (Release) Kind() Kind { return KindRelease }
func (Blocks) Kind() Kind  { return KindBlocks }
func (Tally) Kind() Kind   { return KindTally }

func (m Ask) append(w *writer) {
	w.slot(m.Rank)
	w.string(m.Key)
	w.u32(uint32(m.Least))
	w.bool(m.Fresh)
}

func parseAsk(r *reader) Message {
	return Ask{Rank: r.slot(), Key: r.text(MaxMark + MaxKey), Least: uint16(r.uint(1<<16 - 1)), Fresh: r.bool()}
}

func (m Answer) append(w *writer) {
	w.slot(m.Rank)
	w.string(m.Key)
	w.bool(m.Fresh)
	w.byte(byte(m.What))
	w.bytes(m.Value)
}

func parseAnswer(r *reader) Message {
	m := Answer{Rank: r.slot(), Key: r.text(MaxMark + MaxKey), Fresh: r.bool(), What: Answered(r.byte()), Value: r.bytes(MaxValue)}
	if m.What >= answers || m.What != Found && len(m.Value) > 0 {
		r.fail(ErrRange)
	}
	return m
}

func (m Collect) append(w *writer) { gathered(m).append(w) }
func (m Release) append(w *writer) { gathered(m).append(w) }

func (m gathered) append(w *writer) {
	w.u32(m.Op)
	w.byte(byte(m.What))
	w.u32(uint32(m.Root))
	w.string(m.Trouble)
	appendList(w, m.Parcels)
}

// NewParcels packs parcels.
func NewParcels(parcels ...Parcel) Parcels {
	return listOf[Parcel, parcelCodec](slices.Values(parcels))
}

func (parcelCodec) append(w *writer, p Parcel) {
	w.slot(p.From)
	w.slot(p.To + 1) // so that Everyone is one byte
	w.bytes(p.Value)
}

func (parcelCodec) read(r *reader) Parcel {
	return Parcel{From: r.slot(), To: r.slot() - 1, Value: r.bytes(MaxGather)}
}

func parseGathered(r *reader) gathered {
	m := gathered{Op: r.u32(), What: Collective(r.byte()), Root: r.rank(), Trouble: r.text(maxTrouble)}
	if m.What >= collectives {
		r.fail(ErrRange)
	}
	m.Parcels = parseList[Parcel, parcelCodec](r, 3, nil)
	if m.Parcels.Size() > MaxGather || m.Trouble != "" && m.Parcels.Len() > 0 {
		r.fail(ErrRange)
	}
	return m
}

func (m Blocks) append(w *writer)   { appendList(w, m.Values) }
func parseBlocks(r *reader) Message { return Blocks{parseValues(r, MaxValue)} }

func (m Tally) append(w *writer) {
	for _, n := range m.Of.Sum {
		w.sum(n)
	}
	w.uint(uint64(len(m.Of.Levels)))
	for _, l := range m.Of.Levels {
		for _, n := range []uint64{l.Asked, l.Hit, l.Own, l.Merged, l.Relayed} {
			w.sum(n)
		}
	}
	for _, n := range m.Of.Latency {
		w.u32(n)
	}
}

func parseTally(r *reader) Message {
	t := &job.Tally{}
	for i := range t.Sum {
		t.Sum[i] = r.uint(mostSum)
	}
	t.Levels = collect(r, 5, func() (l job.LevelTally) {
		for _, n := range []*uint64{&l.Asked, &l.Hit, &l.Own, &l.Merged, &l.Relayed} {
			*n = r.uint(mostSum)
		}
		return l
	})
	if len(t.Levels) > job.MaxLevels {
		r.fail(ErrRange)
	}
	for i := range t.Latency {
		t.Latency[i] = r.u32()
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
func (m Blocks) String() string { return fmt.Sprintf("Blocks n=%d", m.Values.Len()) }
func (m Tally) String() string  { return fmt.Sprintf("Tally ranks=%d", m.Of.Sum[job.CountRanks]) }
