package wire

import (
	"fmt"

	"ibrun/bootstrap/frame"
	"ibrun/bootstrap/rankwire"
	"ibrun/job"
)

// The frames of daemons (docs/dev/decisions/0028-daemons.md).
const (
	KindDaemons      frame.Kind = 78  // down
	KindDaemonOutput frame.Kind = 79  // up
	KindDaemonGrant  frame.Kind = 80  // down
	KindDaemonsEnd   frame.Kind = 81  // down
	KindDaemonsEnded frame.Kind = 82  // up
	KindDaemonInput  frame.Kind = 113 // down
	KindDaemonRoom   frame.Kind = 114 // up
)

// Daemons orders a process on each node of a subtree that is meant. ID is the root's, counted
// from 1.
type Daemons struct {
	ID      uint32
	PerRank bool      // one beside each rank instead
	Nodes   NodeSpans // that are meant; none: all
	Argv    rankwire.Strings
	Credit  uint32 // bytes of DaemonOutput that may be sent before the first DaemonGrant

	// Of one daemon beside one rank, for which PerRank and Nodes are said, too.
	Input  DaemonInputKind
	OfRank job.Slot
	Window job.Window // of its terminal
}

// DaemonInputKind is what a daemon reads, and whether it is a debugger, which is given the process
// of its rank.
type DaemonInputKind uint8

const (
	ReadsNothing DaemonInputKind = iota
	ReadsPipe
	DebugsByTerminal
	DebugsByPipe
)

// DaemonInput is standard input for the daemon of an order that reads. It has credit from end to
// end.
type DaemonInput struct {
	ID uint32
	Stdin
}

// DaemonRoom says that the daemon of an order has taken N bytes of DaemonInput.
type DaemonRoom struct{ ID, N uint32 }

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
func (DaemonInput) Kind() frame.Kind  { return KindDaemonInput }
func (DaemonRoom) Kind() frame.Kind   { return KindDaemonRoom }

func (m Daemons) Encode(w *frame.Encoder) {
	w.U32(m.ID)
	w.Bool(m.PerRank)
	m.Nodes.Encode(w)
	m.Argv.Encode(w)
	w.U32(m.Credit)
	w.Byte(uint8(m.Input))
	w.U32(uint32(m.OfRank))
	encodeWindow(w, m.Window)
}

func (m DaemonInput) Encode(w *frame.Encoder) {
	w.U32(m.ID)
	m.Stdin.Encode(w)
}

func (m DaemonRoom) Encode(w *frame.Encoder) {
	w.U32(m.ID)
	w.U32(m.N)
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
		Credit: r.U32(), Input: DaemonInputKind(r.Byte()), OfRank: job.Slot(r.U32()), Window: decodeWindow(r)}
	alone := m.PerRank && m.Nodes.Len() == 1
	switch {
	case m.Argv.Len() == 0, m.Input > DebugsByPipe, m.Input != ReadsNothing && !alone:
		r.Fail(frame.ErrRange)
	case m.Input == ReadsNothing && m.OfRank != 0, m.Input != DebugsByTerminal && m.Window != job.Window{}:
		r.Fail(frame.ErrCanonical)
	}
	return m
}

func parseDaemonInput(r *frame.Decoder) frame.Message {
	return DaemonInput{ID: r.U32(), Stdin: decodeStdin(r)}
}

func parseDaemonRoom(r *frame.Decoder) frame.Message { return DaemonRoom{ID: r.U32(), N: r.U32()} }

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
	return fmt.Sprintf("Daemons id=%d ranks=%t nodes=%d argv=%d credit=%d input=%d ofrank=%d", m.ID, m.PerRank,
		m.Nodes.Len(), m.Argv.Len(), m.Credit, m.Input, m.OfRank)
}
func (m DaemonOutput) String() string {
	return fmt.Sprintf("DaemonOutput id=%d number=%d stream=%d bytes=%d", m.ID, m.Number, m.Stream, len(m.Data))
}
func (m DaemonGrant) String() string { return fmt.Sprintf("DaemonGrant id=%d n=%d", m.ID, m.N) }
func (m DaemonInput) String() string { return fmt.Sprintf("DaemonInput id=%d %v", m.ID, m.Stdin) }
func (m DaemonRoom) String() string  { return fmt.Sprintf("DaemonRoom id=%d n=%d", m.ID, m.N) }
func (m DaemonsEnd) String() string  { return fmt.Sprintf("DaemonsEnd id=%d", m.ID) }
func (m DaemonsEnded) String() string {
	return fmt.Sprintf("DaemonsEnded id=%d daemons=%d over=%d lost=%d code=%d failed=%d", m.ID, m.Daemons, m.Over,
		m.Lost, m.Code, uint64(m.Failed.Len())+uint64(m.More))
}
