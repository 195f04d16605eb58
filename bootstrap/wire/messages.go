package wire

import (
	"fmt"
	"slices"

	"ibrun/bootstrap/frame"
	"ibrun/job"
)

func (Launch) Kind() frame.Kind    { return KindLaunch }
func (Ready) Kind() frame.Kind     { return KindReady }
func (Exit) Kind() frame.Kind      { return KindExit }
func (Output) Kind() frame.Kind    { return KindOutput }
func (Grant) Kind() frame.Kind     { return KindGrant }
func (Stdin) Kind() frame.Kind     { return KindStdin }
func (StdinRoom) Kind() frame.Kind { return KindStdinRoom }
func (Signal) Kind() frame.Kind    { return KindSignal }
func (End) Kind() frame.Kind       { return KindEnd }
func (Fault) Kind() frame.Kind     { return KindFault }
func (Waiting) Kind() frame.Kind   { return KindWaiting }
func (Heartbeat) Kind() frame.Kind { return KindHeartbeat }

func (m Ready) Encode(w *frame.Encoder)     { w.U32(m.Up); w.U32(m.Failed) }
func (m Grant) Encode(w *frame.Encoder)     { w.U32(m.N) }
func (m StdinRoom) Encode(w *frame.Encoder) { w.U32(m.N) }
func (m Signal) Encode(w *frame.Encoder)    { w.Byte(m.Number) }
func (m End) Encode(w *frame.Encoder)       { w.Byte(m.Signal); w.U32(m.GraceMs) }
func (Heartbeat) Encode(*frame.Encoder)     {}
func (m Output) Encode(w *frame.Encoder)    { w.U32(uint32(m.Rank)); w.Byte(m.Stream); w.Bytes(m.Data) }
func (m Stdin) Encode(w *frame.Encoder)     { w.Bool(m.EOF); w.Bytes(m.Data); encodeWindow(w, m.Window) }

func (m Exit) Encode(w *frame.Encoder) {
	w.Sum(m.Truncated)
	w.Bool(m.MPI.SpokePMI)
	w.Text(m.MPI.Library)
	m.Runs.Encode(w)
}

// NewEndings packs how ranks ended, in their order.
func NewEndings(runs ...job.StatusRun) Endings {
	return frame.ListOf[job.StatusRun, endingCodec](slices.Values(runs))
}

func (endingCodec) Encode(w *frame.Encoder, r job.StatusRun) {
	w.U32(uint32(r.First))
	w.U32(r.Count)
	encodeStatus(w, r.Status)
}

func (endingCodec) Decode(r *frame.Decoder) job.StatusRun {
	return job.StatusRun{First: job.Slot(r.U32()), Count: r.U32(), Status: decodeStatus(r)}
}

func (m Waiting) Encode(w *frame.Encoder) {
	w.Uint(uint64(len(m.Items)))
	for _, l := range m.Items {
		w.U32(uint32(l.Node))
		w.UserText(l.Host)
		w.UserText(l.Phase)
		w.U32(l.ForMs)
	}
}

func (m Fault) Encode(w *frame.Encoder) {
	w.Byte(byte(m.What))
	w.U32(uint32(m.Node))
	w.U32(m.Nodes)
	w.U32(uint32(m.Rank))
	w.U32(m.Count)
	w.U32(m.AgeMs)
	encodeStatus(w, m.Status)
	w.Bool(m.Awaited)
	w.Bool(m.Excused)
	w.U32(m.SilentMs)
	for _, s := range []string{m.Host, m.Parent, m.Phase, m.Cause, m.Tail} {
		w.UserText(s)
	}
}

func encodeStatus(w *frame.Encoder, s job.Status) {
	w.Byte(byte(s.Kind))
	w.Byte(s.Code)
	w.Bool(s.Core)
}

func decodeStatus(r *frame.Decoder) job.Status {
	s := job.Status{Kind: job.StatusKind(r.Byte()), Code: r.Byte(), Core: r.Bool()}
	if s.Kind > job.Lost {
		r.Fail(frame.ErrRange)
	}
	return s
}

func parseReady(r *frame.Decoder) frame.Message     { return Ready{Up: r.U32(), Failed: r.U32()} }
func parseGrant(r *frame.Decoder) frame.Message     { return Grant{N: r.U32()} }
func parseStdinRoom(r *frame.Decoder) frame.Message { return StdinRoom{N: r.U32()} }
func parseSignal(r *frame.Decoder) frame.Message    { return Signal{Number: signalNumber(r)} }
func parseEnd(r *frame.Decoder) frame.Message       { return End{Signal: signalNumber(r), GraceMs: r.U32()} }
func parseHeartbeat(*frame.Decoder) frame.Message   { return Heartbeat{} }

// signalNumber reads a signal of Linux, 1 to 64, or 0 for none.
func signalNumber(r *frame.Decoder) uint8 {
	n := r.Byte()
	if n > 64 {
		r.Fail(frame.ErrRange)
	}
	return n
}

func parseOutput(r *frame.Decoder) frame.Message {
	m := Output{Rank: job.Slot(r.U32()), Stream: r.Byte(), Data: r.Bytes(MaxData)}
	if m.Stream != 1 && m.Stream != 2 || len(m.Data) == 0 {
		r.Fail(frame.ErrRange)
	}
	return m
}

func parseStdin(r *frame.Decoder) frame.Message { return decodeStdin(r) }

func decodeStdin(r *frame.Decoder) Stdin {
	m := Stdin{EOF: r.Bool(), Data: r.Bytes(MaxData), Window: decodeWindow(r)}
	if len(m.Data) == 0 && !m.EOF && m.Window == (job.Window{}) {
		r.Fail(frame.ErrRange)
	}
	return m
}

// parseExit reads the runs, which are in order, each of one rank or more.
func parseExit(r *frame.Decoder) frame.Message {
	next := uint64(0)
	return Exit{
		Truncated: r.Sum(), MPI: job.MPIFindings{SpokePMI: r.Bool(), Library: r.Text()},
		Runs: frame.DecodeList[job.StatusRun, endingCodec](r, 5, func(s job.StatusRun) error {
			if s.Count == 0 || uint64(s.First) < next {
				return frame.ErrCanonical
			}
			if next = uint64(s.First) + uint64(s.Count); next > job.MaxRanks {
				return frame.ErrRange
			}
			return nil
		}),
	}
}

func parseWaiting(r *frame.Decoder) frame.Message {
	m := Waiting{frame.DecodeSlice(r, 4, func() SlowSession {
		return SlowSession{Node: job.NodeIndex(r.U32()), Host: r.UserText(), Phase: r.UserText(), ForMs: r.U32()}
	})}
	if len(m.Items) > MaxSlowSessions {
		r.Fail(frame.ErrRange)
	}
	return m
}

// MaxSlowSessions bounds one Waiting: a person reads a few names, not a thousand.
const MaxSlowSessions = 8

func parseFault(r *frame.Decoder) frame.Message {
	m := Fault{What: FaultKind(r.Byte())}
	if m.What < FaultRank || m.What > FaultRollback {
		r.Fail(frame.ErrRange)
	}
	m.Node, m.Nodes, m.Rank, m.Count, m.AgeMs = job.NodeIndex(r.U32()), r.U32(), job.Slot(r.U32()), r.U32(), r.U32()
	m.Status = decodeStatus(r)
	if m.Awaited = r.Bool(); m.Awaited && m.What != FaultRank {
		r.Fail(frame.ErrRange)
	}
	if m.Excused, m.SilentMs = r.Bool(), r.U32(); m.Excused && m.What != FaultRank {
		r.Fail(frame.ErrRange)
	}
	for _, s := range []*string{&m.Host, &m.Parent, &m.Phase, &m.Cause, &m.Tail} {
		*s = r.UserText()
	}
	return m
}

func (m Launch) String() string {
	return fmt.Sprintf("Launch job=%s first=%d nodes=%d share=%d ranks=%d level=%d credit=%d session=%dms", m.Job.ID,
		m.First, m.Nodes.Len(), job.Parts(m.Share).Len(), m.Nodes.Ranks(), m.Level, m.Credit, m.SessionMs)
}
func (m Ready) String() string { return fmt.Sprintf("Ready up=%d failed=%d", m.Up, m.Failed) }
func (m Exit) String() string {
	return fmt.Sprintf("Exit runs=%d truncated=%d", m.Runs.Len(), m.Truncated)
}
func (m Output) String() string {
	return fmt.Sprintf("Output rank=%d stream=%d bytes=%d", m.Rank, m.Stream, len(m.Data))
}
func (m Grant) String() string     { return fmt.Sprintf("Grant n=%d", m.N) }
func (m Stdin) String() string     { return fmt.Sprintf("Stdin bytes=%d eof=%t", len(m.Data), m.EOF) }
func (m StdinRoom) String() string { return fmt.Sprintf("StdinRoom n=%d", m.N) }
func (m Signal) String() string    { return fmt.Sprintf("Signal number=%d", m.Number) }
func (m End) String() string       { return fmt.Sprintf("End signal=%d grace=%dms", m.Signal, m.GraceMs) }
func (m Waiting) String() string   { return fmt.Sprintf("Waiting %v", m.Items) }
func (Heartbeat) String() string   { return "Heartbeat" }
func (m Fault) String() string {
	return fmt.Sprintf("Fault what=%d node=%d+%d rank=%d+%d %v host=%s phase=%s cause=%q", m.What, m.Node, m.Nodes,
		m.Rank, m.Count, m.Status, m.Host, m.Phase, m.Cause)
}
