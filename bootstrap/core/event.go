package core

import (
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Link names one neighbour: Up is the parent, 0 and above are the children in launch order.
type Link = subtree.Link

// Up is the link to the parent.
const Up = subtree.Up

// Event is something that happened to an agent.
type Event = subtree.Event

// Frame is a message that came over a link.
type Frame struct {
	From Link
	Msg  frame.Message
}

// Opened is an agent's first event: it has said its first word to its parent.
type Opened struct{}

// ChildUp says that a session is up and the agent behind it is of this build.
type ChildUp struct {
	Child Link
	CPU   time.Duration // that its launcher's process has taken; 0: unknown
	Spent time.Duration // CPU of this machine for it, this process's part included; 0: unknown
}

// ChildPhase says what a session that is still coming up is waiting for, and
// which moment of its launch that is; Moments: none.
type ChildPhase struct {
	Child  Link
	Phase  string
	Moment job.Moment
}

// SessionsObserved answers ObserveSessions. Ran is the time that the sessions on their way and this
// process have run, or waited for a processor, since the last answer, summed over their threads.
type SessionsObserved struct{ Ran time.Duration }

// ChildFailed says that a session never came up.
type ChildFailed struct {
	Child              Link
	Phase, Cause, Tail string
}

// JoinRefused ends a JoinChild: the agent has a parent that is nearer to the root.
type JoinRefused struct{ Child Link }

// Relinked says that there is a new link to a parent, of a level, in place of the old one.
type Relinked struct{ Level uint32 }

// LinkLost says that a link which was up has ended.
type LinkLost struct {
	Link  Link
	Cause string
	Tail  string // last lines of the session
}

// ForkDone ends the start of this node's ranks; Failed ranks never ran.
type ForkDone struct{ Failed []ForkFailure }

// Placed is where this node's ranks run. It comes before ForkDone, if at all.
type Placed struct{ wire.Placed }

// Notice is something that the user should know and that ends nothing.
type Notice struct{ Text string }

// ForkFailure is a rank that could not be started; Code is 125, 126 or 127.
type ForkFailure struct {
	Rank  job.Slot
	Code  uint8
	Cause string
}

// RankOutput is one chunk of what a rank of this node wrote.
type RankOutput struct {
	Rank   job.Slot
	Stream uint8
	Data   []byte
}

// RankExited is the death of a rank of this node.
type RankExited struct {
	Rank     job.Slot
	Status   job.Status
	Signaled bool   // it had been sent a signal of the job's end before it was dying
	Awaited  bool   // it had joined its peers by PMI and not taken its leave
	PMI      bool   // it has spoken PMI or PMIx
	Handles  bool   // by PMIx it has asked to be told of ranks that end, so that its job can go on without them
	Cause    string // what is known beyond the status, or empty
}

// RankDrained says that all a rank wrote has been read.
type RankDrained struct{ Rank job.Slot }

// RankFenced ends a Fence, with what of the rank it could not kill.
type RankFenced struct {
	Rank job.Slot
	Left []Unkillable
}

// NodeEmptied ends an EmptyNode, with what it could not kill.
type NodeEmptied struct{ Left []Unkillable }

// Respawned ends a Refork. Code 0: the rank runs; else it does not, because of Cause.
type Respawned struct {
	Rank  job.Slot
	Code  uint8
	Cause string
}

// RankFrame is a frame that a rank of this node sent to its agent.
type RankFrame struct {
	Rank job.Slot
	Msg  frame.Message
}

// BulkRequested says that this node wants the values of all nodes at a fence that it has passed.
type BulkRequested struct{ Fence uint32 }

// BulkRead answers a ReadBulk. The core keeps Value until it has passed it on.
type BulkRead struct {
	Fence uint32
	Value []byte // nothing: this node has nothing to give
}

// MPIFindings is what this node has seen of MPI, once or piece by piece.
type MPIFindings struct{ job.MPIFindings }

// RankInputRead says that a rank read N bytes of its standard input.
type RankInputRead struct {
	Rank job.Slot
	N    int
}

// RankInputClosed says that a rank closed its standard input.
type RankInputClosed struct{ Rank job.Slot }

// Killed ends a KillRanks, with what it could not kill.
type Killed struct{ Left []Unkillable }

// Swept ends a Sweep, with what it could not kill.
type Swept struct{ Left []Unkillable }

// JobSwept ends a SweepJob: how many processes it killed, and what it could not kill.
type JobSwept struct {
	Killed uint32
	Left   []Unkillable
}

// NodeSwept ends a SweepNode.
type NodeSwept struct {
	Index  job.NodeIndex
	Killed uint32 // processes that a lost agent had left
	Left   string // what lives on, for the user
	Cause  string // why it cannot be known; empty: it is
}

// Unkillable is a process that has not died of SIGKILL in time.
type Unkillable struct {
	PID   int
	Name  string // of its program, as ps shows it
	State string // a letter of proc(5): D is sleep in the kernel that no signal ends
}

// ReaperLost says that the reaper of this agent died.
type ReaperLost struct{}

// EndRequested says that somebody on this node sent the agent a signal to end.
type EndRequested struct{ Signal uint8 }

// Tick is the timer that SetTimer asked for.
type Tick struct{}

// Probed answers a Probe: what this machine's kernel knows of the link.
type Probed struct {
	Link   Link
	Known  bool   // false: nothing
	Resent int    // how often in a row the oldest that was sent has been sent again
	Waits  bool   // something was sent and is not acknowledged, or is not sent though the other side would take it
	Acked  uint64 // bytes that the other side has acknowledged since the beginning
}

// Begin starts the root: the whole job.
type Begin struct{ Launch wire.Launch }

// StdinRead is what the root read from its own standard input, or the new size
// of its terminal.
type StdinRead struct {
	Data   []byte
	EOF    bool
	Window job.Window
}

// Wrote says that the root's sink took N bytes.
type Wrote struct{ N int }

// SinkFailed says that the root's own output can take no more. Pipe tells a
// reader that went away from an error.
type SinkFailed struct {
	Pipe  bool
	Cause string
}

// JobAnswered says that what a rank has spawned runs, or why not.
type JobAnswered struct {
	Rank      job.Slot // which has asked
	JobID     string
	Namespace string
	Refused   string
}

// JobAsked is a spawned job's question about a service.
type JobAsked struct {
	Job  uint32
	Name rankwire.Name
}

// JobEnded is the end of a spawned job; Ran: JobAnswered was without a refusal.
type JobEnded struct {
	Job  uint32
	Ran  bool
	Code int
}

// ParentAnswered answers AskParent.
type ParentAnswered struct{ Name rankwire.Name }

// Interrupted is a signal to the root.
type Interrupted struct{ Signal uint8 }

func (Frame) IsEvent()            {}
func (Opened) IsEvent()           {}
func (ChildUp) IsEvent()          {}
func (ChildPhase) IsEvent()       {}
func (SessionsObserved) IsEvent() {}
func (ChildFailed) IsEvent()      {}
func (LinkLost) IsEvent()         {}
func (JoinRefused) IsEvent()      {}
func (Relinked) IsEvent()         {}
func (ForkDone) IsEvent()         {}
func (RankOutput) IsEvent()       {}
func (RankExited) IsEvent()       {}
func (RankDrained) IsEvent()      {}
func (RankFenced) IsEvent()       {}
func (Respawned) IsEvent()        {}
func (NodeEmptied) IsEvent()      {}
func (RankFrame) IsEvent()        {}
func (MPIFindings) IsEvent()      {}
func (RankInputRead) IsEvent()    {}
func (BulkRequested) IsEvent()    {}
func (BulkRead) IsEvent()         {}
func (RankInputClosed) IsEvent()  {}
func (Killed) IsEvent()           {}
func (Swept) IsEvent()            {}
func (JobSwept) IsEvent()         {}
func (NodeSwept) IsEvent()        {}
func (Placed) IsEvent()           {}
func (Notice) IsEvent()           {}
func (ReaperLost) IsEvent()       {}
func (EndRequested) IsEvent()     {}
func (Tick) IsEvent()             {}
func (Probed) IsEvent()           {}
func (Begin) IsEvent()            {}
func (StdinRead) IsEvent()        {}
func (Wrote) IsEvent()            {}
func (SinkFailed) IsEvent()       {}
func (JobAnswered) IsEvent()      {}
func (JobAsked) IsEvent()         {}
func (JobEnded) IsEvent()         {}
func (ParentAnswered) IsEvent()   {}
func (Interrupted) IsEvent()      {}
