package core

import (
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Effect is something the driver must do, in the order given.
type Effect = subtree.Effect

// Send puts a message on a link. Output and Exit keep their order; other
// messages may overtake them.
type Send = subtree.Send

// StartChild opens a session. The driver answers ChildUp or ChildFailed, once.
type StartChild struct {
	Child Link
	Node  job.Node
	Local bool          // this very machine: no remote shell
	Most  time.Duration // that it may take; 0: what the job says
}

// ObserveSessions asks whether the sessions on their way run or wait. The driver answers
// SessionsObserved.
type ObserveSessions struct{}

// JoinChild opens a session to an agent of this job that has lost its parent. The driver answers
// ChildUp, ChildFailed or JoinRefused, once, within the time Most.
type JoinChild struct {
	Child Link
	Node  job.Node
	Local bool
	Most  time.Duration
	Key   job.NodeIndex // of the node, as its agent was launched
	Level uint32        // of this agent
}

// CloseLink ends a link and kills its session. No event follows.
type CloseLink struct{ Link Link }

// Fork starts this node's ranks. The driver answers ForkDone.
type Fork struct {
	Job   *job.Job
	Node  job.Node
	Index job.NodeIndex
	Start uint8  // that all of them are
	Op    uint32 // collectives up to this number are of starts before
}

// Renew makes new what serves this node's ranks, of which none runs: all start again.
type Renew struct {
	Job   *job.Job
	Node  job.Node
	Index job.NodeIndex
	Op    uint32 // as in Fork
}

// EmptyNode kills all that this node's ranks are and have left, for at most a time. Ranks can be
// started afterwards. The driver answers NodeEmptied.
type EmptyNode struct{ Most time.Duration }

// Resume lets the reader of one stream of a rank read the next chunk.
type Resume struct {
	Rank   job.Slot
	Stream uint8
}

// SignalRanks sends a signal to the process group of each live rank.
type SignalRanks struct{ Number uint8 }

// StopRanks stops the ranks and all that descends from them.
type StopRanks struct{}

// ContinueRanks undoes StopRanks.
type ContinueRanks struct{}

// KillRanks kills the ranks and all that descends from them, and goes on until
// all are dead or the time is up. The driver answers Killed.
type KillRanks struct{ Most time.Duration }

// Fence kills all that a rank has left, which has exited, for at most a time. The driver answers
// RankFenced.
type Fence struct {
	Rank job.Slot
	Most time.Duration
}

// Refork starts a rank of this node again, of which nothing runs any more, as its start of a
// number. Its input is over. The driver answers Respawned.
type Refork struct {
	Rank  job.Slot
	Start uint8
}

// Sweep kills what the ranks left behind. The driver answers Swept.
type Sweep struct{ Most time.Duration }

// SweepJob kills what a lost agent of this node has left of a job. The driver answers JobSwept.
type SweepJob struct {
	Job   string // its ID
	Node  job.NodeIndex
	Grace time.Duration // for what an agent that lives is ending
}

// Feed writes to a rank's standard input; EOF closes it after Data. A window that
// is not zero is the new size of its terminal.
type Feed struct {
	Rank   job.Slot
	Data   []byte
	EOF    bool
	Window job.Window
}

// SendRank sends a frame to a rank of this node that said hello.
type SendRank struct {
	Rank job.Slot
	Msg  frame.Message
}

// Connect makes a socket pair and hands its ends to two ranks of this node, each
// beside a rankwire.Pair that names the other.
type Connect struct{ A, B job.Slot }

// ReadBulk asks for what this node has for the bulk fetch of a fence. The driver answers
// BulkRead.
type ReadBulk struct{ Fence uint32 }

// BulkFetched answers BulkRequested: what all nodes that are there have given. The driver
// must not change it.
type BulkFetched struct {
	Fence  uint32
	Values frame.Values
}

// SetTimer asks for one Tick at the given time; a later SetTimer replaces it.
type SetTimer struct{ At time.Duration }

// Probe asks whether the far kernel acknowledges what is sent. The driver answers Probed.
type Probe struct{ Link Link }

// Finish ends an agent that is not the root.
type Finish struct{}

// Leave kills all processes of this node's part of the job and ends the agent, which is not the root. Its neighbours
// notice this because their links end. The exit code of the agent is that of a process killed by Signal.
type Leave struct{ Signal uint8 }

// Effects of the root only.

// SweepNode opens a session to a node and sends Sweep over it. The driver answers NodeSwept,
// once, within the time Most.
type SweepNode struct {
	Node  job.Node
	Index job.NodeIndex
	Local bool // this very machine: no remote shell
	Grace time.Duration
	Most  time.Duration
}

// ReadStdin allows N more bytes to be read from standard input.
type ReadStdin struct{ N int }

// Write puts what a rank wrote on the root's output. The driver answers Wrote.
type Write struct {
	Rank   job.Slot
	Stream uint8
	Data   []byte
}

// Suspend stops the root itself, as its terminal asked.
type Suspend struct{}

// Report shows a person something while the job goes on: a wire.Fault,
// Restarting, wire.Waiting, wire.Placed or rankwire.Notice, Progress while the launch goes on, or
// Started when all ranks run.
type Report struct{ What any }

// Restarting says that a rank which has failed starts again.
type Restarting struct {
	Fault  wire.Fault
	All    bool // and all others with it
	Number int  // of the restart, among those that count, from 1
}

// Progress counts the nodes below the root that are settled, subtree by subtree.
type Progress struct{ Nodes int }

// LaunchDone reports a launch that is complete. Without Launch.Timed it has the
// times of the root's own sessions, as far as the root sees them.
type LaunchDone struct {
	Agents  uint32
	Times   []job.NodeTimes          // parents before their children
	Missing uint32                   // nodes that Times lacks because there are too many
	Spares  map[job.NodeIndex]string // hosts of the spares, by the node that each stands for
}

// StartJob starts what a rank has spawned. The driver answers JobAnswered,
// unless it is gone, and in any case JobEnded.
type StartJob struct {
	Job   uint32
	Spawn rankwire.SpawnJob
}

// SignalJobs sends a signal to the spawned jobs.
type SignalJobs struct{ Number uint8 }

// AnswerJob answers a spawned job.
type AnswerJob struct {
	Job  uint32
	Name rankwire.Name
}

// AskParent asks the root of the job that this one was spawned by. The driver
// answers ParentAnswered, with the same ID, in any order.
type AskParent struct{ Name rankwire.Name }

// Done ends the root.
type Done struct{ Outcome Outcome }

// CauseKind says what ended a job.
type CauseKind uint8

const (
	CauseNone      CauseKind = iota // all ranks ended by themselves
	CauseFault                      // Outcome.Fault
	CauseTimeout                    // the job's time was up
	CauseSignal                     // ibrun was told to end: Outcome.Signal
	CauseSink                       // ibrun's own output failed: Outcome.Text
	CauseWait                       // -W: other ranks outlived the first too long
	CauseOffspring                  // a job that a rank has spawned failed
)

// Outcome is how a job ended.
type Outcome struct {
	Code       int
	Cause      CauseKind
	EndedBy    CauseKind    // CauseTimeout or CauseWait, for a job that went on after Cause until then
	Fault      wire.Fault   // the first causal failure, for CauseFault
	Faults     []wire.Fault // all that were reported, the first one included
	Fallbacks  []wire.Fault // sessions that failed where another one did not
	Signal     uint8
	Text       string
	Runs       []job.StatusRun
	Truncated  uint64
	AllStarted bool // every agent came up
	Tally      job.Tally
	MPI        job.MPIFindings
	Times      []job.NodeTimes // of a launch that was not completed: what is known of it
}

func (StartChild) IsEffect()      {}
func (ObserveSessions) IsEffect() {}
func (JoinChild) IsEffect()       {}
func (CloseLink) IsEffect()       {}
func (Fork) IsEffect()            {}
func (Resume) IsEffect()          {}
func (SignalRanks) IsEffect()     {}
func (StopRanks) IsEffect()       {}
func (ContinueRanks) IsEffect()   {}
func (KillRanks) IsEffect()       {}
func (Sweep) IsEffect()           {}
func (Fence) IsEffect()           {}
func (Refork) IsEffect()          {}
func (Renew) IsEffect()           {}
func (EmptyNode) IsEffect()       {}
func (SweepJob) IsEffect()        {}
func (SweepNode) IsEffect()       {}
func (Feed) IsEffect()            {}
func (SendRank) IsEffect()        {}
func (Connect) IsEffect()         {}
func (ReadBulk) IsEffect()        {}
func (BulkFetched) IsEffect()     {}
func (SetTimer) IsEffect()        {}
func (Probe) IsEffect()           {}
func (Finish) IsEffect()          {}
func (Leave) IsEffect()           {}
func (ReadStdin) IsEffect()       {}
func (Write) IsEffect()           {}
func (Suspend) IsEffect()         {}
func (Report) IsEffect()          {}
func (StartJob) IsEffect()        {}
func (SignalJobs) IsEffect()      {}
func (AnswerJob) IsEffect()       {}
func (AskParent) IsEffect()       {}
func (Done) IsEffect()            {}
