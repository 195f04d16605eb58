package rankwire

import (
	"slices"

	"ibrun/bootstrap/frame"
	"ibrun/job"
)

// What agents are asked about ranks that run, and what they answer
// (docs/dev/decisions/0025-control.md). The frames around it are package wire's.

// QuestionKind says what is asked of each rank.
type QuestionKind uint8

const (
	LookAtRanks QuestionKind = 1 // what the rank does
	ShowStacks  QuestionKind = 2 // where in its program it is
	SendSignal  QuestionKind = 3 // nothing: it gets a signal
)

// Bounds of an answer.
const (
	MaxRows   = 1024
	MaxGroups = 64
	MaxSpans  = 64      // of the ranks of a group
	MaxStack  = 4 << 10 // bytes of a text
)

// Question is asked of the ranks of a subtree.
type Question struct {
	What       QuestionKind
	Signal     uint8     // of SendSignal: 1 to 64
	Rows       uint32    // most rows of the answer: of ranks that are furthest behind, then least busy
	PatienceMs uint32    // until an answer is sent with what there is
	Ranks      SlotSpans // that are meant; none: all
}

// Asks reports whether a question is of a rank.
func (q *Question) Asks(rank job.Slot) bool { return q.AsksAny(rank, 1) }

// AsksAny reports whether a question is of one of the ranks [first, first+count).
func (q *Question) AsksAny(first job.Slot, count uint32) bool {
	if q.Ranks.Len() == 0 {
		return count > 0
	}
	for s := range q.Ranks.All() {
		if s.First < first+job.Slot(count) && first < s.End() {
			return true
		}
	}
	return false
}

// Standing is what a rank does, as far as its agent knows.
type Standing uint8

const (
	NotStarted Standing = iota
	Runs                // it has not joined the job, by the package ibrun, PMI or PMIx
	Joined              // it is in the job and waits in no collective
	Waits               // in the collective with the number Op
	Left                // its program has left the job
	Over                // it has exited
	Signaled            // it was sent a signal
)

// Standings is the answer of all ranks of a subtree that were asked.
type Standings struct {
	Nodes  uint32 // whose agents have answered
	Silent uint32 // whose agents are gone, or have not answered in time
	Cut    uint32 // ranks of groups that were left out
	More   uint32 // rows that were left out
	Groups RankGroups
	Rows   RankRows
}

// RankGroup is ranks that are in the same state.
type RankGroup struct {
	State  Standing
	Op     uint32     // collectives that each has joined, the one that it waits in included
	Call   Collective // that it waits in
	Text   string     // its stack; at most MaxStack bytes
	Count  uint32
	AgeMs  uint32 // the longest time that one of them is in a collective
	CPUMs  uint64 // of all together
	Memory uint64 // of all together, in bytes
	Ranks  SlotSpans
}

// RankRow is one rank.
type RankRow struct {
	Rank   job.Slot
	Host   string
	PID    uint32 // 0: no process
	State  Standing
	Op     uint32
	Call   Collective
	AgeMs  uint32
	Kernel uint8 // the letter of its process's state, as in /proc/PID/stat; 0: no process
	CPUMs  uint64
	Busy   uint32 // of one CPU, in thousandths, since it was last asked, or since it began
	Memory uint64 // that is resident, in bytes
	CPUs   string // that it may use
	HCA    string
	Waits  string // what its first thread waits in
}

// RankGroups and RankRows are lists of them.
type (
	RankGroups = frame.List[RankGroup, groupCodec]
	RankRows   = frame.List[RankRow, rowCodec]
)

type (
	groupCodec struct{}
	rowCodec   struct{}
)

// NewRankGroups packs groups.
func NewRankGroups(groups ...RankGroup) RankGroups {
	return frame.ListOf[RankGroup, groupCodec](slices.Values(groups))
}

// NewRankRows packs rows.
func NewRankRows(rows ...RankRow) RankRows {
	return frame.ListOf[RankRow, rowCodec](slices.Values(rows))
}

// Encode writes a question.
func (q *Question) Encode(w *frame.Encoder) {
	w.Byte(byte(q.What))
	w.Byte(q.Signal)
	w.U32(q.Rows)
	w.U32(q.PatienceMs)
	q.Ranks.Encode(w)
}

// mostSignal is the highest number of a signal.
const mostSignal = 64

// DecodeQuestion takes a question.
func DecodeQuestion(r *frame.Decoder) Question {
	q := Question{What: QuestionKind(r.Byte()), Signal: r.Byte(), Rows: uint32(r.Uint(MaxRows)),
		PatienceMs: r.U32(), Ranks: decodeSlotSpans(r)}
	signals := q.What == SendSignal
	if q.What < LookAtRanks || q.What > SendSignal || q.Signal > mostSignal ||
		signals != (q.Signal > 0) {
		r.Fail(frame.ErrRange)
	}
	return q
}

// Encode writes an answer.
func (a *Standings) Encode(w *frame.Encoder) {
	w.U32(a.Nodes)
	w.U32(a.Silent)
	w.U32(a.Cut)
	w.U32(a.More)
	a.Groups.Encode(w)
	a.Rows.Encode(w)
}

// DecodeStandings takes an answer.
func DecodeStandings(r *frame.Decoder) Standings {
	a := Standings{Nodes: r.U32(), Silent: r.U32(), Cut: r.U32(), More: r.U32()}
	a.Groups = frame.DecodeList[RankGroup, groupCodec](r, 9, nil)
	a.Rows = frame.DecodeList[RankRow, rowCodec](r, 14, nil)
	if a.Groups.Len() > MaxGroups || a.Rows.Len() > MaxRows {
		r.Fail(frame.ErrRange)
	}
	return a
}

func (groupCodec) Encode(w *frame.Encoder, g RankGroup) {
	w.Byte(byte(g.State))
	w.U32(g.Op)
	w.Byte(byte(g.Call))
	w.Text(g.Text)
	w.U32(g.Count)
	w.U32(g.AgeMs)
	w.Sum(g.CPUMs)
	w.Sum(g.Memory)
	g.Ranks.Encode(w)
}

func (groupCodec) Decode(r *frame.Decoder) RankGroup {
	g := RankGroup{State: standing(r), Op: r.U32(), Call: Collective(r.Byte()), Text: r.TextUpTo(MaxStack),
		Count: r.U32(), AgeMs: r.U32(), CPUMs: r.Sum(), Memory: r.Sum(), Ranks: decodeSlotSpans(r)}
	if g.Ranks.Len() > MaxSpans || g.Call >= collectives {
		r.Fail(frame.ErrRange)
	}
	return g
}

func (rowCodec) Encode(w *frame.Encoder, o RankRow) {
	w.U32(uint32(o.Rank))
	w.Text(o.Host)
	w.U32(o.PID)
	w.Byte(byte(o.State))
	w.U32(o.Op)
	w.Byte(byte(o.Call))
	w.U32(o.AgeMs)
	w.Byte(o.Kernel)
	w.Sum(o.CPUMs)
	w.U32(o.Busy)
	w.Sum(o.Memory)
	w.Text(o.CPUs)
	w.Text(o.HCA)
	w.Text(o.Waits)
}

func (rowCodec) Decode(r *frame.Decoder) RankRow {
	o := RankRow{Rank: job.Slot(r.U32()), Host: r.Text(), PID: r.U32(), State: standing(r), Op: r.U32(),
		Call: Collective(r.Byte()), AgeMs: r.U32(), Kernel: r.Byte(), CPUMs: r.Sum(), Busy: r.U32(), Memory: r.Sum(),
		CPUs: r.Text(), HCA: r.Text(), Waits: r.Text()}
	if o.Rank >= job.MaxRanks || o.Call >= collectives {
		r.Fail(frame.ErrRange)
	}
	return o
}

func standing(r *frame.Decoder) Standing {
	s := Standing(r.Byte())
	if s > Signaled {
		r.Fail(frame.ErrRange)
	}
	return s
}
