package wire

import (
	"fmt"

	"ibrun/bootstrap/frame"
	"ibrun/job"
)

// The frames of a job that repairs its tree (docs/dev/decisions/0021-tree-repair.md).
const (
	KindBelow  frame.Kind = 56 // up
	KindJoin   frame.Kind = 57 // down, to an agent that has no job
	KindJoined frame.Kind = 58 // up, the answer
	KindResume frame.Kind = 59 // down, first on a new link
	KindState  frame.Kind = 60 // up, the answer
	KindReport frame.Kind = 61 // up, instead of Fault
	KindPassed frame.Kind = 62 // down
	KindChunk  frame.Kind = 63 // up, instead of Output
)

// Below says which children an agent has, a frame for each, so that its parent can adopt them.
type Below struct {
	Left  uint32        // frames of the set that follow; the first has the most
	Key   job.NodeIndex // of the child's node as it was launched
	Head  job.NodeIndex // the same node by its index now
	Parts []job.Part    // all nodes of the child; none: the agent has no child
}

// MaxBelow is how many parts a Below has. An agent whose nodes are in more pieces is not adopted.
const MaxBelow = 16

// Join tells an agent that has no job to hand its link to the agent of a job on its node.
type Join struct {
	Job   string        // the job's ID
	Key   job.NodeIndex // of the node
	Level uint32        // of the agent that sends this
	Lines bool          // what is answered may be held until a line ends
}

// Joined answers Join. After JoinedTaken the agent of the job reads and writes the link.
type Joined struct{ How uint8 }

// The answers.
const (
	JoinedTaken  uint8 = iota
	JoinedNobody       // no agent of the job is there
	JoinedOther        // it has another parent, which is nearer to the root
)

// Resume begins a link to an agent that has lost its parent.
type Resume struct{ Credit uint32 } // bytes of Chunk that may be sent before the first Grant

// State says what an agent has received of what comes down, so that the parent repeats the rest.
type State struct {
	Signals  uint32 // frames
	Input    uint32 // frames of Stdin
	Held     uint32 // bytes of Stdin that it has not passed on
	Released uint32 // number of the newest collective that was released to it
	Floor    uint32 // serial of the newest floor
	Respawn  uint32 // serial of the newest Respawn
	Replaces uint32 // number of the Replace by which it was started, while it waits for its Respawn; 0: it does not
	Begun    bool   // its ranks were ordered to start, or wait for Respawn
}

// NoInput stands for Input if the ranks of a node read none: they are not its first ones.
const NoInput = 1<<32 - 1

// Report is a Fault with a number, by which it counts once.
type Report struct {
	Node     job.NodeIndex // of the agent that numbers it
	Serial   uint32        // from 1 at each node
	Repaired bool          // of FaultLost: the agents below go on
	Fault    Fault
}

// Passed says that the root has the reports of a node up to a number.
type Passed struct {
	Node   job.NodeIndex
	Serial uint32
}

// Chunk is an Output with its place in the stream.
type Chunk struct {
	At     uint64 // bytes of the stream before it, in all starts of the rank
	Output Output
}

func (Below) Kind() frame.Kind  { return KindBelow }
func (Join) Kind() frame.Kind   { return KindJoin }
func (Joined) Kind() frame.Kind { return KindJoined }
func (Resume) Kind() frame.Kind { return KindResume }
func (State) Kind() frame.Kind  { return KindState }
func (Report) Kind() frame.Kind { return KindReport }
func (Passed) Kind() frame.Kind { return KindPassed }
func (Chunk) Kind() frame.Kind  { return KindChunk }

func (m Below) Encode(w *frame.Encoder) {
	w.U32(m.Left)
	w.U32(uint32(m.Key))
	w.U32(uint32(m.Head))
	w.Uint(uint64(len(m.Parts)))
	for _, p := range m.Parts {
		encodePart(w, p)
	}
}

func (m Join) Encode(w *frame.Encoder) {
	w.Text(m.Job)
	w.U32(uint32(m.Key))
	w.U32(m.Level)
	w.Bool(m.Lines)
}

func (m Joined) Encode(w *frame.Encoder) { w.Byte(m.How) }
func (m Resume) Encode(w *frame.Encoder) { w.U32(m.Credit) }

func (m State) Encode(w *frame.Encoder) {
	for _, n := range []uint32{m.Signals, m.Input, m.Held, m.Released, m.Floor, m.Respawn, m.Replaces} {
		w.U32(n)
	}
	w.Bool(m.Begun)
}

func (m Report) Encode(w *frame.Encoder) {
	w.U32(uint32(m.Node))
	w.U32(m.Serial)
	w.Bool(m.Repaired)
	m.Fault.Encode(w)
}

func (m Passed) Encode(w *frame.Encoder) { w.U32(uint32(m.Node)); w.U32(m.Serial) }
func (m Chunk) Encode(w *frame.Encoder)  { w.Sum(m.At); m.Output.Encode(w) }

func parseBelow(r *frame.Decoder) frame.Message {
	m := Below{Left: r.U32(), Key: job.NodeIndex(r.U32()), Head: job.NodeIndex(r.U32())}
	m.Parts = frame.DecodeSlice(r, partLeast, func() job.Part { return decodePart(r) })
	next, has := uint64(0), len(m.Parts) == 0
	for i, p := range m.Parts {
		if uint64(p.First) < next || i > 0 && uint64(p.First) == next {
			r.Fail(frame.ErrCanonical)
		}
		next, has = uint64(p.First)+uint64(p.Nodes.Len()), has || m.Head >= p.First && m.Head < p.End()
		if next > job.MaxNodes {
			r.Fail(frame.ErrRange)
		}
	}
	if !has || len(m.Parts) > MaxBelow {
		r.Fail(frame.ErrRange)
	}
	return m
}

func parseJoin(r *frame.Decoder) frame.Message {
	m := Join{Job: r.Text(), Key: job.NodeIndex(r.U32()), Level: r.U32(), Lines: r.Bool()}
	if m.Level > MaxLevel {
		r.Fail(frame.ErrRange)
	}
	return m
}

func parseJoined(r *frame.Decoder) frame.Message {
	m := Joined{How: r.Byte()}
	if m.How > JoinedOther {
		r.Fail(frame.ErrRange)
	}
	return m
}

func parseResume(r *frame.Decoder) frame.Message { return Resume{Credit: r.U32()} }

func parseState(r *frame.Decoder) frame.Message {
	return State{
		Signals: r.U32(), Input: r.U32(), Held: r.U32(), Released: r.U32(), Floor: r.U32(), Respawn: r.U32(),
		Replaces: r.U32(), Begun: r.Bool(),
	}
}

func parseReport(r *frame.Decoder) frame.Message {
	m := Report{Node: job.NodeIndex(r.U32()), Serial: r.U32(), Repaired: r.Bool()}
	m.Fault, _ = parseFault(r).(Fault)
	if m.Serial == 0 || m.Repaired && m.Fault.What != FaultLost {
		r.Fail(frame.ErrRange)
	}
	return m
}

func parsePassed(r *frame.Decoder) frame.Message {
	return Passed{Node: job.NodeIndex(r.U32()), Serial: r.U32()}
}

func parseChunk(r *frame.Decoder) frame.Message {
	m := Chunk{At: r.Sum()}
	m.Output, _ = parseOutput(r).(Output)
	return m
}

func (m Below) String() string {
	return fmt.Sprintf("Below left=%d key=%d head=%d nodes=%d", m.Left, m.Key, m.Head, job.Parts(m.Parts).Len())
}
func (m Join) String() string {
	return fmt.Sprintf("Join job=%s key=%d level=%d", m.Job, m.Key, m.Level)
}
func (m Joined) String() string { return fmt.Sprintf("Joined how=%d", m.How) }
func (m Resume) String() string { return fmt.Sprintf("Resume credit=%d", m.Credit) }
func (m State) String() string {
	return fmt.Sprintf("State signals=%d input=%d held=%d released=%d floor=%d respawn=%d replaces=%d begun=%t",
		m.Signals, m.Input, m.Held, m.Released, m.Floor, m.Respawn, m.Replaces, m.Begun)
}
func (m Report) String() string {
	return fmt.Sprintf("Report node=%d serial=%d repaired=%t %v", m.Node, m.Serial, m.Repaired, m.Fault)
}
func (m Passed) String() string { return fmt.Sprintf("Passed node=%d serial=%d", m.Node, m.Serial) }
func (m Chunk) String() string  { return fmt.Sprintf("Chunk at=%d %v", m.At, m.Output) }
