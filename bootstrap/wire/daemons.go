package wire

import (
	"fmt"

	"ibrun/bootstrap/frame"
	"ibrun/bootstrap/rankwire"
)

// The frames of daemons (docs/decisions/0028-daemons.md).
const (
	KindDaemons      frame.Kind = 78 // down
	KindDaemonOutput frame.Kind = 79 // up
	KindDaemonGrant  frame.Kind = 80 // down
	KindDaemonsEnd   frame.Kind = 81 // down
	KindDaemonsEnded frame.Kind = 82 // up
)

// Daemons orders a process on each node of a subtree that is meant. ID is the root's, counted
// from 1.
type Daemons struct {
	ID      uint32
	PerRank bool      // one beside each rank instead
	Nodes   NodeSpans // that are meant; none: all
	Argv    rankwire.Strings
	Credit  uint32 // bytes of DaemonOutput that may be sent before the first DaemonGrant
}

// DaemonOutput carries what a daemon wrote. Number is that of its node, or the slot of its rank.
type DaemonOutput struct {
	ID, Number uint32
	Stream     uint8  // 1 or 2
	Data       []byte // 1 to MaxData bytes
}

// DaemonGrant returns credit for N bytes of DaemonOutput.
type DaemonGrant struct{ ID, N uint32 }

// DaemonsEnd kills the daemons of an order. They are reported as ever.
type DaemonsEnd struct{ ID uint32 }

// DaemonsEnded says how the daemons of an order have ended in a whole subtree. It is the last of
// them.
type DaemonsEnded struct {
	ID uint32
	rankwire.DaemonEnds
}

func (Daemons) Kind() frame.Kind      { return KindDaemons }
func (DaemonOutput) Kind() frame.Kind { return KindDaemonOutput }
func (DaemonGrant) Kind() frame.Kind  { return KindDaemonGrant }
func (DaemonsEnd) Kind() frame.Kind   { return KindDaemonsEnd }
func (DaemonsEnded) Kind() frame.Kind { return KindDaemonsEnded }

func (m Daemons) Encode(w *frame.Encoder) {
	w.U32(m.ID)
	w.Bool(m.PerRank)
	m.Nodes.Encode(w)
	m.Argv.Encode(w)
	w.U32(m.Credit)
}

func (m DaemonOutput) Encode(w *frame.Encoder) {
	w.U32(m.ID)
	w.U32(m.Number)
	w.Byte(m.Stream)
	w.Bytes(m.Data)
}

func (m DaemonGrant) Encode(w *frame.Encoder) {
	w.U32(m.ID)
	w.U32(m.N)
}

func (m DaemonsEnd) Encode(w *frame.Encoder) { w.U32(m.ID) }

func (m DaemonsEnded) Encode(w *frame.Encoder) {
	w.U32(m.ID)
	m.DaemonEnds.Encode(w)
}

func parseDaemons(r *frame.Decoder) frame.Message {
	m := Daemons{ID: r.U32(), PerRank: r.Bool(), Nodes: decodeNodeSpans(r), Argv: rankwire.DecodeStrings(r),
		Credit: r.U32()}
	if m.Argv.Len() == 0 {
		r.Fail(frame.ErrRange)
	}
	return m
}

func parseDaemonOutput(r *frame.Decoder) frame.Message {
	m := DaemonOutput{ID: r.U32(), Number: r.U32(), Stream: r.Byte(), Data: r.Bytes(MaxData)}
	if m.Stream != 1 && m.Stream != 2 || len(m.Data) == 0 {
		r.Fail(frame.ErrRange)
	}
	return m
}

func parseDaemonGrant(r *frame.Decoder) frame.Message { return DaemonGrant{ID: r.U32(), N: r.U32()} }

func parseDaemonsEnd(r *frame.Decoder) frame.Message { return DaemonsEnd{ID: r.U32()} }

func parseDaemonsEnded(r *frame.Decoder) frame.Message {
	return DaemonsEnded{ID: r.U32(), DaemonEnds: rankwire.DecodeDaemonEnds(r)}
}

func (m Daemons) String() string {
	return fmt.Sprintf("Daemons id=%d ranks=%t nodes=%d argv=%d credit=%d", m.ID, m.PerRank, m.Nodes.Len(),
		m.Argv.Len(), m.Credit)
}
func (m DaemonOutput) String() string {
	return fmt.Sprintf("DaemonOutput id=%d number=%d stream=%d bytes=%d", m.ID, m.Number, m.Stream, len(m.Data))
}
func (m DaemonGrant) String() string { return fmt.Sprintf("DaemonGrant id=%d n=%d", m.ID, m.N) }
func (m DaemonsEnd) String() string  { return fmt.Sprintf("DaemonsEnd id=%d", m.ID) }
func (m DaemonsEnded) String() string {
	return fmt.Sprintf("DaemonsEnded id=%d daemons=%d over=%d lost=%d code=%d failed=%d", m.ID, m.Daemons, m.Over,
		m.Lost, m.Code, uint64(m.Failed.Len())+uint64(m.More))
}
