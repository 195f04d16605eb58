package flight

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/frame"
	"ibrun/bootstrap/rankwire"
	"ibrun/bootstrap/wire"
	"ibrun/job"
)

// Kinds of entries with a form of their own; those of other events follow.
const (
	kindGap = iota
	kindFrame
	kindRankFrame
	kindBegin
	kindPlaced
	kindOutput     // Frame with Output: length of the data only
	kindStdin      // Frame with Stdin: the same
	kindRankOutput // the same
	kindStdinRead  // the same
	kindTick
	kindWrote
	kindAsked
	kindInspected
	kindChunk        // Frame with Chunk: length of the data only
	kindDaemonFrame  // Frame with DaemonOutput: the same
	kindDaemonOutput // the same
	kindMemberFrame
	kindOthers
)

// others are events that are written as JSON. The order is part of the format.
var others = []core.Event{
	core.Opened{}, core.ChildUp{}, core.ChildPhase{}, core.ChildFailed{}, core.LinkLost{},
	core.ForkDone{}, core.Notice{}, core.RankExited{}, core.RankDrained{}, core.BulkRequested{},
	core.BulkRead{}, core.MPIFindings{}, core.RankInputRead{}, core.RankInputClosed{}, core.Killed{},
	core.Swept{}, core.JobSwept{}, core.NodeSwept{}, core.ReaperLost{}, core.EndRequested{},
	core.Probed{}, core.SinkFailed{}, core.JobAnswered{}, core.JobAsked{}, core.JobEnded{},
	core.ParentAnswered{}, core.Interrupted{}, core.RankFenced{}, core.Respawned{}, core.NodeEmptied{},
	core.JoinRefused{}, core.Relinked{}, core.DaemonsAsked{}, core.DaemonsTaken{}, core.DaemonsLeft{},
	core.DaemonExited{}, core.NodeSignal{}, core.CCSAsked{}, core.CCSReplied{}, core.ResizeAsked{},
	core.SessionAsked{}, core.SessionSent{}, core.SessionTaken{}, core.DaemonsKept{}, core.SessionsObserved{},
	core.DaemonFed{}, core.DaemonInputClosed{}, core.DaemonInputRead{},
}

var kindOf = func() map[reflect.Type]int {
	kinds := map[reflect.Type]int{}
	for i, ev := range others {
		kinds[reflect.TypeOf(ev)] = kindOthers + i
	}
	return kinds
}()

// chunk is data of which only the length is kept.
type chunk struct {
	From   core.Link
	Rank   job.Slot
	Stream uint8
	N      int
	EOF    bool
	Window job.Window
	At     uint64
	ID     uint32 // of DaemonOutput; its number is Rank
}

func encodeEvent(ev core.Event) (kind int, body []byte) {
	switch ev := ev.(type) {
	case core.Frame:
		switch m := ev.Msg.(type) {
		case wire.Output:
			return kindOutput, inJSON(chunk{From: ev.From, Rank: m.Rank, Stream: m.Stream, N: len(m.Data)})
		case wire.Chunk:
			out := m.Output
			return kindChunk, inJSON(chunk{
				From: ev.From, Rank: out.Rank, Stream: out.Stream, N: len(out.Data), At: m.At,
			})
		case wire.DaemonOutput:
			return kindDaemonFrame, inJSON(daemonChunk(ev.From, m))
		case wire.Stdin:
			return kindStdin, inJSON(chunk{From: ev.From, N: len(m.Data), EOF: m.EOF, Window: m.Window})
		case wire.Launch:
			ev.Msg = launch(m)
		case wire.CCSRequest: // where it goes does not depend on what it asks
			m.Data, m.PE = nil, 0
			ev.Msg = m
		case wire.CCSReply:
			m.Data = nil
			ev.Msg = m
		case wire.Record: // another agent's, which goes its own way
			m.Data = nil
			ev.Msg = m
		case wire.SessionPiece:
			m.Data = blank(m.Data)
			ev.Msg = m
		}
		return kindFrame, frame.Append(binary.AppendUvarint(nil, uint64(ev.From-core.Up)), ev.Msg)
	case core.RankFrame:
		return kindRankFrame, frame.Append(binary.AppendUvarint(nil, uint64(ev.Rank)), ev.Msg)
	case core.MemberFrame:
		if data, ok := ev.Msg.(rankwire.ToolPiece); ok {
			ev.Msg = blank(data)
		}
		body = binary.AppendUvarint(nil, uint64(ev.ID)<<32|uint64(ev.Member))
		return kindMemberFrame, frame.Append(body, ev.Msg)
	case core.SessionSent:
		ev.Data = blank(ev.Data)
		return kindOf[reflect.TypeOf(ev)], inJSON(ev)
	case core.Begin:
		return kindBegin, frame.Append(nil, launch(ev.Launch))
	case core.Placed:
		return kindPlaced, frame.Append(nil, ev.Placed)
	case core.Asked:
		return kindAsked, frame.Append(nil, ev.Query)
	case core.Inspected:
		return kindInspected, frame.Append(nil, ev.Reply)
	case core.RankOutput:
		return kindRankOutput, inJSON(chunk{Rank: ev.Rank, Stream: ev.Stream, N: len(ev.Data)})
	case core.CCSAsked:
		ev.Data, ev.PE = nil, 0
		return kindOf[reflect.TypeOf(ev)], inJSON(ev)
	case core.CCSReplied:
		ev.Data = nil
		return kindOf[reflect.TypeOf(ev)], inJSON(ev)
	case core.DaemonOutput:
		return kindDaemonOutput, inJSON(daemonChunk(core.Up, ev.DaemonOutput))
	case core.StdinRead:
		return kindStdinRead, inJSON(chunk{N: len(ev.Data), EOF: ev.EOF, Window: ev.Window})
	case core.Tick:
		return kindTick, nil
	case core.Wrote:
		return kindWrote, binary.AppendUvarint(nil, uint64(ev.N))
	}
	return kindOf[reflect.TypeOf(ev)], inJSON(ev)
}

// blank is data of the same length. What tools send each other is nobody else's business.
func blank(m rankwire.ToolPiece) rankwire.ToolPiece {
	return rankwire.ToolPiece{Last: m.Last, Data: make([]byte, len(m.Data))}
}

func daemonChunk(from core.Link, m wire.DaemonOutput) chunk {
	return chunk{From: from, ID: m.ID, Rank: job.Slot(m.Number), Stream: m.Stream, N: len(m.Data)}
}

func inJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // only for types that JSON cannot have
	}
	return text
}

var errEntry = errors.New("an entry that no recorder writes")

func decodeEvent(kind int, body []byte) (core.Event, error) {
	switch kind {
	case kindFrame:
		from, m, err := decodeFrame(wire.Vocabulary, body)
		return core.Frame{From: core.Link(from) + core.Up, Msg: m}, err
	case kindRankFrame:
		rank, m, err := decodeFrame(rankwire.Vocabulary, body)
		return core.RankFrame{Rank: job.Slot(rank), Msg: m}, err
	case kindMemberFrame:
		which, m, err := decodeFrame(rankwire.Vocabulary, body)
		return core.MemberFrame{ID: uint32(which >> 32), Member: job.Slot(which & 0xffffffff), Msg: m}, err
	case kindBegin:
		_, m, err := decodeFrame(wire.Vocabulary, append([]byte{0}, body...))
		begin, ok := m.(wire.Launch)
		if err == nil && !ok {
			err = errEntry
		}
		return core.Begin{Launch: begin}, err
	case kindPlaced:
		_, m, err := decodeFrame(wire.Vocabulary, append([]byte{0}, body...))
		placed, ok := m.(wire.Placed)
		if err == nil && !ok {
			err = errEntry
		}
		return core.Placed{Placed: placed}, err
	case kindAsked:
		_, m, err := decodeFrame(wire.Vocabulary, append([]byte{0}, body...))
		asked, ok := m.(wire.Query)
		if err == nil && !ok {
			err = errEntry
		}
		return core.Asked{Query: asked}, err
	case kindInspected:
		_, m, err := decodeFrame(wire.Vocabulary, append([]byte{0}, body...))
		inspected, ok := m.(wire.Reply)
		if err == nil && !ok {
			err = errEntry
		}
		return core.Inspected{Reply: inspected}, err
	case kindOutput, kindStdin, kindRankOutput, kindStdinRead, kindChunk, kindDaemonFrame, kindDaemonOutput:
		return decodeChunk(kind, body)
	case kindTick:
		return core.Tick{}, nil
	case kindWrote:
		n, size := binary.Uvarint(body)
		if size <= 0 {
			return nil, errEntry
		}
		return core.Wrote{N: int(n)}, nil
	}
	if kind < kindOthers || kind-kindOthers >= len(others) {
		return nil, errEntry
	}
	v := reflect.New(reflect.TypeOf(others[kind-kindOthers]))
	if err := json.Unmarshal(body, v.Interface()); err != nil {
		return nil, fmt.Errorf("%w: %w", errEntry, err)
	}
	return v.Elem().Interface().(core.Event), nil
}

// decodeFrame reads a number and a frame.
func decodeFrame(v frame.Vocabulary, body []byte) (number uint64, m frame.Message, err error) {
	number, size := binary.Uvarint(body)
	if size <= 0 || len(body) < size+4 {
		return 0, nil, errEntry
	}
	m, err = v.Parse(body[size+4:])
	return number, m, err
}

func decodeChunk(kind int, body []byte) (core.Event, error) {
	var c chunk
	if err := json.Unmarshal(body, &c); err != nil || c.N < 0 || c.N > wire.MaxData {
		return nil, errEntry
	}
	data := make([]byte, c.N)
	daemon := wire.DaemonOutput{ID: c.ID, Number: uint32(c.Rank), Stream: c.Stream, Data: data}
	switch kind {
	case kindDaemonFrame:
		return core.Frame{From: c.From, Msg: daemon}, nil
	case kindDaemonOutput:
		return core.DaemonOutput{DaemonOutput: daemon}, nil
	case kindOutput:
		return core.Frame{From: c.From, Msg: wire.Output{Rank: c.Rank, Stream: c.Stream, Data: data}}, nil
	case kindChunk:
		out := wire.Output{Rank: c.Rank, Stream: c.Stream, Data: data}
		return core.Frame{From: c.From, Msg: wire.Chunk{At: c.At, Output: out}}, nil
	case kindStdin:
		return core.Frame{From: c.From, Msg: wire.Stdin{Data: data, EOF: c.EOF, Window: c.Window}}, nil
	case kindRankOutput:
		return core.RankOutput{Rank: c.Rank, Stream: c.Stream, Data: data}, nil
	}
	return core.StdinRead{Data: data, EOF: c.EOF, Window: c.Window}, nil
}

// sum is a short sum over what was decided: the kinds of effects, and of the messages in them.
func sum(effects []core.Effect) uint64 {
	h := fnv.New32a()
	for _, e := range effects {
		_, _ = h.Write([]byte(reflect.TypeOf(e).Name()))
		switch e := e.(type) {
		case core.Send:
			_, _ = h.Write([]byte{byte(e.To), byte(e.Msg.Kind())})
		case core.SendRank:
			_, _ = h.Write([]byte{byte(e.Rank), byte(e.Msg.Kind())})
		}
	}
	return uint64(h.Sum32() & 0x3fff) // two bytes as a varint
}
