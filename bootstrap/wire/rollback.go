package wire

import (
	"fmt"

	"ibrun/bootstrap/frame"
	"ibrun/job"
)

// The frames of a job whose ranks all start again, or whose lost nodes are replaced
// (docs/dev/decisions/0020-restart.md).
const (
	KindRecall   frame.Kind = 50 // down
	KindRecalled frame.Kind = 51 // up
	KindRest     frame.Kind = 52 // up
	KindReplace  frame.Kind = 53 // down
	KindReplaced frame.Kind = 54 // up
	KindStanding frame.Kind = 55 // down, to an agent that replaces another
)

// Recall orders that all ranks end, so that they can start again: TERM now, KILL after the grace.
type Recall struct {
	Serial  uint32 // counted from 1
	GraceMs uint32
}

// Recalled says that no rank of a subtree runs, and that nothing of them is left; or, with a cause,
// why that cannot be had.
type Recalled struct {
	Serial uint32
	Cause  string
}

// Rest says that all ranks of a subtree have ended, as far as floors up to Serial are concerned.
// The subtree stays, since its ranks may be started again.
type Rest struct{ Serial uint32 }

// Replace orders the parent of an agent that was lost to start another one in its place. Part is
// the node's, with the host of the new one.
type Replace struct {
	Number uint32 // of the order among all of the job, from 1
	Part   job.Part
}

// Replaced answers Replace: the new agent is ready, or Cause says why there is none.
type Replaced struct {
	Number uint32
	Node   job.NodeIndex
	Cause  string
}

// Standing tells an agent that replaces another how far the job is.
type Standing struct {
	Number   uint32 // of the Replace
	Signals  uint32 // frames of Signal that its parent has had
	Serial   uint32 // of the newest floor
	Op       uint32 // collectives up to this number have failed
	Recall   uint32 // serial of the newest Recall
	Everyone uint16 // floor of all ranks; 0: none
	Floors   []RankFloor
}

// RankFloor is the floor of one rank, which is above that of all.
type RankFloor struct {
	Rank  job.Slot
	Epoch uint16
}

func (Recall) Kind() frame.Kind   { return KindRecall }
func (Recalled) Kind() frame.Kind { return KindRecalled }
func (Rest) Kind() frame.Kind     { return KindRest }
func (Replace) Kind() frame.Kind  { return KindReplace }
func (Replaced) Kind() frame.Kind { return KindReplaced }
func (Standing) Kind() frame.Kind { return KindStanding }

func (m Recall) Encode(w *frame.Encoder)   { w.U32(m.Serial); w.U32(m.GraceMs) }
func (m Recalled) Encode(w *frame.Encoder) { w.U32(m.Serial); w.UserText(m.Cause) }
func (m Rest) Encode(w *frame.Encoder)     { w.U32(m.Serial) }
func (m Replace) Encode(w *frame.Encoder)  { w.U32(m.Number); encodePart(w, m.Part) }

func (m Replaced) Encode(w *frame.Encoder) {
	w.U32(m.Number)
	w.U32(uint32(m.Node))
	w.UserText(m.Cause)
}

func (m Standing) Encode(w *frame.Encoder) {
	for _, n := range []uint32{m.Number, m.Signals, m.Serial, m.Op, m.Recall} {
		w.U32(n)
	}
	w.U32(uint32(m.Everyone))
	encodeFloors(w, m.Floors)
}

func encodeFloors(w *frame.Encoder, floors []RankFloor) {
	w.Uint(uint64(len(floors)))
	for _, f := range floors {
		w.U32(uint32(f.Rank))
		w.U32(uint32(f.Epoch))
	}
}

func parseRecall(r *frame.Decoder) frame.Message   { return Recall{Serial: r.U32(), GraceMs: r.U32()} }
func parseRecalled(r *frame.Decoder) frame.Message { return Recalled{r.U32(), r.UserText()} }
func parseRest(r *frame.Decoder) frame.Message     { return Rest{r.U32()} }
func parseReplaced(r *frame.Decoder) frame.Message {
	return Replaced{r.U32(), job.NodeIndex(r.U32()), r.UserText()}
}

func parseReplace(r *frame.Decoder) frame.Message {
	m := Replace{r.U32(), decodePart(r)}
	if r.Err() == nil && m.Part.Nodes.Len() != 1 {
		r.Fail(frame.ErrRange)
	}
	return m
}

// floorLeast is the least size of a RankFloor, in bytes: an epoch of a restart has two.
const floorLeast = 3

func parseStanding(r *frame.Decoder) frame.Message {
	m := Standing{
		Number: r.U32(), Signals: r.U32(), Serial: r.U32(), Op: r.U32(), Recall: r.U32(),
		Everyone: uint16(r.Uint(1<<16 - 1)),
	}
	m.Floors = decodeFloors(r, m.Everyone)
	return m
}

// decodeFloors reads those of ranks that are above the floor of all.
func decodeFloors(r *frame.Decoder, everyone uint16) []RankFloor {
	next := uint64(0)
	return frame.DecodeSlice(r, floorLeast, func() RankFloor {
		f := RankFloor{Rank: job.Slot(r.U32()), Epoch: epoch(r)}
		if uint64(f.Rank) < next || f.Rank >= job.MaxRanks || f.Epoch <= everyone {
			r.Fail(frame.ErrRange)
		}
		next = uint64(f.Rank) + 1
		return f
	})
}

func (m Recall) String() string {
	return fmt.Sprintf("Recall serial=%d grace=%dms", m.Serial, m.GraceMs)
}
func (m Recalled) String() string {
	return fmt.Sprintf("Recalled serial=%d cause=%q", m.Serial, m.Cause)
}
func (m Rest) String() string { return fmt.Sprintf("Rest serial=%d", m.Serial) }
func (m Replace) String() string {
	return fmt.Sprintf("Replace number=%d node=%d host=%s", m.Number, m.Part.First, m.Part.Nodes.At(0).Host)
}
func (m Replaced) String() string {
	return fmt.Sprintf("Replaced number=%d node=%d cause=%q", m.Number, m.Node, m.Cause)
}
func (m Standing) String() string {
	return fmt.Sprintf("Standing number=%d signals=%d serial=%d op=%d recall=%d everyone=%d floors=%d", m.Number,
		m.Signals, m.Serial, m.Op, m.Recall, m.Everyone, len(m.Floors))
}
