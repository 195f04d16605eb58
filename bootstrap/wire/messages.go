package wire

import (
	"fmt"

	"ibrun/job"
)

var kindNames = [...]string{
	KindLaunch:    "Launch",
	KindReady:     "Ready",
	KindExit:      "Exit",
	KindOutput:    "Output",
	KindGrant:     "Grant",
	KindStdin:     "Stdin",
	KindStdinRoom: "StdinRoom",
	KindSignal:    "Signal",
	KindEnd:       "End",
	KindFault:     "Fault",
	KindWaiting:   "Waiting",
	KindBeat:      "Beat",
	KindAsk:       "Ask",
	KindAnswer:    "Answer",
	KindCollect:   "Collect",
	KindRelease:   "Release",
	KindBlocks:    "Blocks",
	KindTally:     "Tally",
	KindPlaced:    "Placed",
	KindName:      "Name",
	KindNotice:    "Notice",
	KindWish:      "Wish",
	KindPool:      "Pool",
	KindTimes:     "Times",
	KindYield:     "Yield",
	KindHand:      "Hand",
	KindSettled:   "Settled",
	KindSpawn:     "Spawn",
	KindSpawned:   "Spawned",
	KindOffspring: "Offspring",
	KindHello:     "Hello",
	KindWelcome:   "Welcome",
	KindPublish:   "Publish",
	KindPut:       "Put",
	KindPutDone:   "PutDone",
	KindPair:      "Pair",
	KindAbort:     "Abort",
	KindFinalize:  "Finalize",
	KindLater:     "Later",
	KindWanted:    "Wanted",
}

func (k Kind) String() string {
	if int(k) >= len(kindNames) || kindNames[k] == "" {
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
	return kindNames[k]
}

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
func (Beat) Kind() Kind      { return KindBeat }

// parsers has a parser for each kind.
var parsers = [256]func(*reader) Message{
	KindLaunch:    parseLaunch,
	KindReady:     parseReady,
	KindExit:      parseExit,
	KindOutput:    parseOutput,
	KindGrant:     parseGrant,
	KindStdin:     parseStdin,
	KindStdinRoom: parseStdinRoom,
	KindSignal:    parseSignal,
	KindEnd:       parseEnd,
	KindFault:     parseFault,
	KindWaiting:   parseWaiting,
	KindBeat:      parseBeat,
	KindAsk:       parseAsk,
	KindAnswer:    parseAnswer,
	KindCollect:   func(r *reader) Message { return Collect(parseGathered(r)) },
	KindRelease:   func(r *reader) Message { return Release(parseGathered(r)) },
	KindBlocks:    parseBlocks,
	KindTally:     parseTally,
	KindPlaced:    parsePlaced,
	KindName:      parseName,
	KindNotice:    parseNotice,
	KindWish:      parseWish,
	KindPool:      parsePool,
	KindTimes:     parseTimes,
	KindYield:     parseYield,
	KindHand:      parseHand,
	KindSettled:   parseSettled,
	KindSpawn:     parseSpawn,
	KindSpawned:   parseSpawned,
	KindOffspring: parseOffspring,
	KindHello:     parseHello,
	KindWelcome:   parseWelcome,
	KindPublish:   parsePublish,
	KindPut:       parsePut,
	KindPutDone:   parsePutDone,
	KindPair:      parsePair,
	KindAbort:     parseAbort,
	KindFinalize:  parseFinalize,
	KindLater:     parseLater,
	KindWanted:    parseWanted,
}

func (m Ready) append(w *writer)     { w.u32(m.Up); w.u32(m.Failed) }
func (m Grant) append(w *writer)     { w.u32(m.N) }
func (m StdinRoom) append(w *writer) { w.u32(m.N) }
func (m Signal) append(w *writer)    { w.byte(m.Number) }
func (m End) append(w *writer)       { w.byte(m.Signal); w.u32(m.GraceMs) }
func (Beat) append(*writer)          {}
func (m Output) append(w *writer)    { w.u32(m.Rank); w.byte(m.Stream); w.bytes(m.Data) }
func (m Stdin) append(w *writer)     { w.bool(m.EOF); w.bytes(m.Data) }

func (m Exit) append(w *writer) {
	w.uint(m.Truncated)
	w.bool(m.MPI.Spoke)
	w.string(m.MPI.Library)
	w.uint(uint64(len(m.Runs)))
	for _, r := range m.Runs {
		w.u32(r.First)
		w.u32(r.Count)
		appendStatus(w, r.Status)
	}
}

func (m Waiting) append(w *writer) {
	w.uint(uint64(len(m.Items)))
	for _, l := range m.Items {
		w.u32(l.Node)
		w.string(l.Host)
		w.string(l.Phase)
		w.u32(l.ForMs)
	}
}

func (m Fault) append(w *writer) {
	w.byte(byte(m.What))
	for _, n := range []uint32{m.Node, m.Nodes, m.Rank, m.Count, m.AgeMs} {
		w.u32(n)
	}
	appendStatus(w, m.Status)
	w.bool(m.Awaited)
	for _, s := range []string{m.Host, m.Parent, m.Phase, m.Cause, m.Tail} {
		w.string(s)
	}
}

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
func parseBeat(*reader) Message        { return Beat{} }

// signalNumber reads a signal of Linux, 1 to 64, or 0 for none.
func signalNumber(r *reader) uint8 {
	n := r.byte()
	if n > 64 {
		r.fail(ErrRange)
	}
	return n
}

func parseOutput(r *reader) Message {
	m := Output{Rank: r.u32(), Stream: r.byte(), Data: r.bytes(MaxData)}
	if m.Stream != 1 && m.Stream != 2 || len(m.Data) == 0 {
		r.fail(ErrRange)
	}
	return m
}

func parseStdin(r *reader) Message {
	m := Stdin{EOF: r.bool(), Data: r.bytes(MaxData)}
	if len(m.Data) == 0 && !m.EOF {
		r.fail(ErrRange)
	}
	return m
}

func parseExit(r *reader) Message {
	m := Exit{Truncated: r.uint(1<<63 - 1), MPI: job.MPISeen{Spoke: r.bool(), Library: r.string()}}
	for range r.count(5) {
		m.Runs = append(m.Runs, job.StatusRun{First: r.u32(), Count: r.u32(), Status: parseStatus(r)})
	}
	return m
}

func parseWaiting(r *reader) Message {
	var m Waiting
	for range r.count(4) {
		m.Items = append(m.Items, Late{Node: r.u32(), Host: r.string(), Phase: r.string(), ForMs: r.u32()})
	}
	return m
}

func parseFault(r *reader) Message {
	m := Fault{What: FaultKind(r.byte())}
	if m.What < FaultRank || m.What > FaultDetour {
		r.fail(ErrRange)
	}
	for _, n := range []*uint32{&m.Node, &m.Nodes, &m.Rank, &m.Count, &m.AgeMs} {
		*n = r.u32()
	}
	m.Status = parseStatus(r)
	if m.Awaited = r.bool(); m.Awaited && m.What != FaultRank {
		r.fail(ErrRange)
	}
	for _, s := range []*string{&m.Host, &m.Parent, &m.Phase, &m.Cause, &m.Tail} {
		*s = r.string()
	}
	return m
}

func (m Launch) String() string {
	return fmt.Sprintf("Launch job=%s first=%d nodes=%d share=%d ranks=%d level=%d credit=%d", m.Job.ID, m.First, m.Nodes.Len(), job.Parts(m.Share).Len(), m.Nodes.Ranks(), m.Level, m.Credit)
}
func (m Ready) String() string { return fmt.Sprintf("Ready up=%d failed=%d", m.Up, m.Failed) }
func (m Exit) String() string  { return fmt.Sprintf("Exit runs=%v truncated=%d", m.Runs, m.Truncated) }
func (m Output) String() string {
	return fmt.Sprintf("Output rank=%d stream=%d bytes=%d", m.Rank, m.Stream, len(m.Data))
}
func (m Grant) String() string     { return fmt.Sprintf("Grant n=%d", m.N) }
func (m Stdin) String() string     { return fmt.Sprintf("Stdin bytes=%d eof=%t", len(m.Data), m.EOF) }
func (m StdinRoom) String() string { return fmt.Sprintf("StdinRoom n=%d", m.N) }
func (m Signal) String() string    { return fmt.Sprintf("Signal number=%d", m.Number) }
func (m End) String() string       { return fmt.Sprintf("End signal=%d grace=%dms", m.Signal, m.GraceMs) }
func (m Waiting) String() string   { return fmt.Sprintf("Waiting %v", m.Items) }
func (Beat) String() string        { return "Beat" }
func (m Fault) String() string {
	return fmt.Sprintf("Fault what=%d node=%d+%d rank=%d+%d %v host=%s phase=%s cause=%q", m.What, m.Node, m.Nodes, m.Rank, m.Count, m.Status, m.Host, m.Phase, m.Cause)
}
