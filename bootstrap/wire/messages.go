package wire

import (
	"fmt"
	"slices"

	"ibrun/job"
)

func (Launch) Kind() Kind    { return KindLaunch }
func (Ready) Kind() Kind     { return KindReady }
func (Exit) Kind() Kind      { return KindExit }
func (Output) Kind() Kind    { return KindOutput }
func (Grant) Kind() Kind     { return KindGrant }
func (Stdin) Kind() Kind     { return KindStdin }
func (StdinRoom) Kind() Kind { return KindStdinRoom }
func (Signal) Kind() Kind    { return KindSignal }
func (End) Kind() Kind       { return KindEnd }
func (Fault) Kind() Kind     { return KindFault }
func (Waiting) Kind() Kind   { return KindWaiting }
func (Heartbeat) Kind() Kind { return KindHeartbeat }

func (m Ready) append(w *writer)     { w.u32(m.Up); w.u32(m.Failed) }
func (m Grant) append(w *writer)     { w.u32(m.N) }
func (m StdinRoom) append(w *writer) { w.u32(m.N) }
func (m Signal) append(w *writer)    { w.byte(m.Number) }
func (m End) append(w *writer)       { w.byte(m.Signal); w.u32(m.GraceMs) }
func (Heartbeat) append(*writer)     {}
func (m Output) append(w *writer)    { w.slot(m.Rank); w.byte(m.Stream); w.bytes(m.Data) }
func (m Stdin) append(w *writer)     { w.bool(m.EOF); w.bytes(m.Data); appendWindow(w, m.Window) }

func (m Exit) append(w *writer) {
	w.sum(m.Truncated)
	w.bool(m.MPI.Spoke)
	w.string(m.MPI.Library)
	appendList(w, m.Runs)
}

// NewEndings packs how ranks ended, in their order.
func NewEndings(runs ...job.StatusRun) Endings {
	return listOf[job.StatusRun, endingCodec](slices.Values(runs))
}

func (endingCodec) append(w *writer, r job.StatusRun) {
	w.slot(r.First)
	w.u32(r.Count)
	appendStatus(w, r.Status)
}

func (endingCodec) read(r *reader) job.StatusRun {
	return job.StatusRun{First: r.slot(), Count: r.u32(), Status: parseStatus(r)}
}

func (m Waiting) append(w *writer) {
	w.uint(uint64(len(m.Items)))
	for _, l := range m.Items {
		w.node(l.Node)
		w.userText(l.Host)
		w.userText(l.Phase)
		w.u32(l.ForMs)
	}
}

func (m Fault) append(w *writer) {
	w.byte(byte(m.What))
	w.node(m.Node)
	w.u32(m.Nodes)
	w.slot(m.Rank)
	w.u32(m.Count)
	w.u32(m.AgeMs)
	appendStatus(w, m.Status)
	w.bool(m.Awaited)
	for _, s := range []string{m.Host, m.Parent, m.Phase, m.Cause, m.Tail} {
		w.userText(s)
	}
}

// maxUserText bounds a text that is for the user, in bytes: longer ones lose their end.
const maxUserText = 16 << 10

func (w *writer) userText(s string) { w.string(s[:min(len(s), maxUserText)]) }
func (r *reader) userText() string  { return r.text(maxUserText) }

func appendStatus(w *writer, s job.Status) {
	w.byte(byte(s.Kind))
	w.byte(s.Code)
	w.bool(s.Core)
}

func parseStatus(r *reader) job.Status {
	s := job.Status{Kind: job.StatusKind(r.byte()), Code: r.byte(), Core: r.bool()}
	if s.Kind > job.Lost {
		r.fail(ErrRange)
	}
	return s
}

func parseReady(r *reader) Message     { return Ready{Up: r.u32(), Failed: r.u32()} }
func parseGrant(r *reader) Message     { return Grant{N: r.u32()} }
func parseStdinRoom(r *reader) Message { return StdinRoom{N: r.u32()} }
func parseSignal(r *reader) Message    { return Signal{Number: signalNumber(r)} }
func parseEnd(r *reader) Message       { return End{Signal: signalNumber(r), GraceMs: r.u32()} }
func parseHeartbeat(*reader) Message   { return Heartbeat{} }

// signalNumber reads a signal of Linux, 1 to 64, or 0 for none.
func signalNumber(r *reader) uint8 {
	n := r.byte()
	if n > 64 {
		r.fail(ErrRange)
	}
	return n
}

func parseOutput(r *reader) Message {
	m := Output{Rank: r.slot(), Stream: r.byte(), Data: r.bytes(MaxData)}
	if m.Stream != 1 && m.Stream != 2 || len(m.Data) == 0 {
		r.fail(ErrRange)
	}
	return m
}

func parseStdin(r *reader) Message {
	m := Stdin{EOF: r.bool(), Data: r.bytes(MaxData), Window: parseWindow(r)}
	if len(m.Data) == 0 && !m.EOF && m.Window == (job.Window{}) {
		r.fail(ErrRange)
	}
	return m
}

// parseExit reads the runs, which are in order, each of one rank or more.
func parseExit(r *reader) Message {
	next := uint64(0)
	return Exit{
		Truncated: r.uint(mostSum), MPI: job.MPISeen{Spoke: r.bool(), Library: r.string()},
		Runs: parseList[job.StatusRun, endingCodec](r, 5, func(s job.StatusRun) error {
			if s.Count == 0 || uint64(s.First) < next {
				return ErrCanonical
			}
			if next = uint64(s.First) + uint64(s.Count); next > job.MaxRanks {
				return ErrRange
			}
			return nil
		}),
	}
}

// mostSum is the most that a sum may be; more is sent as that.
const mostSum = job.MaxCount

func (w *writer) sum(n uint64) { w.uint(min(n, mostSum)) }

func parseWaiting(r *reader) Message {
	m := Waiting{collect(r, 4, func() Late { return Late{Node: r.node(), Host: r.userText(), Phase: r.userText(), ForMs: r.u32()} })}
	if len(m.Items) > MaxLate {
		r.fail(ErrRange)
	}
	return m
}

// MaxLate bounds one Waiting: a person reads a few names, not a thousand.
const MaxLate = 8

func parseFault(r *reader) Message {
	m := Fault{What: FaultKind(r.byte())}
	if m.What < FaultRank || m.What > FaultFallback {
		r.fail(ErrRange)
	}
	m.Node, m.Nodes, m.Rank, m.Count, m.AgeMs = r.node(), r.u32(), r.slot(), r.u32(), r.u32()
	m.Status = parseStatus(r)
	if m.Awaited = r.bool(); m.Awaited && m.What != FaultRank {
		r.fail(ErrRange)
	}
	for _, s := range []*string{&m.Host, &m.Parent, &m.Phase, &m.Cause, &m.Tail} {
		*s = r.userText()
	}
	return m
}

func (m Launch) String() string {
	return fmt.Sprintf("Launch job=%s first=%d nodes=%d share=%d ranks=%d level=%d credit=%d", m.Job.ID, m.First, m.Nodes.Len(), job.Parts(m.Share).Len(), m.Nodes.Ranks(), m.Level, m.Credit)
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
	return fmt.Sprintf("Fault what=%d node=%d+%d rank=%d+%d %v host=%s phase=%s cause=%q", m.What, m.Node, m.Nodes, m.Rank, m.Count, m.Status, m.Host, m.Phase, m.Cause)
}
