package core

import (
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Link identifies a neighbour of an agent in the tree. Up is the parent. Children have the numbers from 0 on, in the
// order in which they were added.
type Link = subtree.Link

// Up is the link to the parent.
const Up = subtree.Up

// Event is an event of an agent, which the driver passes to Core.Step.
type Event = subtree.Event

// Frame is a message that has arrived from a neighbour.
type Frame struct {
	From Link
	Msg  frame.Message
}

// Opened is the first event of an agent other than the root. The driver has already sent the agent's greeting to the
// parent.
type Opened struct{}

// ChildUp says that the session to a child is open, and that the child's agent is of the same build as this one.
type ChildUp struct {
	Child Link
	CPU   time.Duration // CPU time of the session's local processes; 0 if unknown or if the launch is not timed
	Spent time.Duration // CPU time of these processes plus this agent's own average CPU time for a session
}

// ChildPhase says that the opening of the session to a child has reached a phase. Moment is the moment of the launch at
// which the phase begins, or job.Moments if the launch does not record it.
type ChildPhase struct {
	Child  Link
	Phase  string
	Moment job.Moment
}

// SessionsObserved answers ObserveSessions. Ran is the time for which the processes that open sessions, and this agent,
// have run or waited for a processor since the last answer. It is the sum over their threads.
type SessionsObserved struct{ Ran time.Duration }

// ChildFailed says that the session to a child could not be opened. Phase is the phase in which the opening failed,
// Cause is the reason, and Tail has the last lines that the session printed.
type ChildFailed struct {
	Child              Link
	Phase, Cause, Tail string
}

// JoinRefused answers a JoinChild. The agent has refused to join, because its present parent is nearer to the root.
type JoinRefused struct{ Child Link }

// Relinked says that a new parent has replaced the parent of this agent, and that Up is now the link to it. Level is
// the level of the new parent in the tree, which is 0 for the root.
type Relinked struct{ Level uint32 }

// LinkLost says that an open link has ended. All messages that arrived over the link were passed to Step before.
type LinkLost struct {
	Link  Link
	Cause string
	Tail  string // last lines that the session to the child printed; empty for Up
}

// ForkDone answers Fork. Failed lists the ranks of this node that could not be started. All others run.
type ForkDone struct{ Failed []ForkFailure }

// Placed says on which processors the ranks of this node run. It comes only if the job asks for a report of the binding
// or the topology. It comes before ForkDone, unless the start of the ranks has timed out.
type Placed struct{ wire.Placed }

// Notice is a message of this agent for the user. The job continues.
type Notice struct{ Text string }

// ForkFailure is a rank that could not be started. Code, which is 125, 126 or 127, counts as its exit code.
type ForkFailure struct {
	Rank  job.Slot
	Code  uint8
	Cause string
}

// RankOutput is a chunk of the output of a rank of this node. Stream is 1 for standard output and 2 for standard error.
// The driver reads no more of this stream before Resume.
type RankOutput struct {
	Rank   job.Slot
	Stream uint8
	Data   []byte
}

// RankExited says that the process of a rank of this node has ended. All messages of the rank were
// passed to Step before.
type RankExited struct {
	Rank     job.Slot
	Status   job.Status
	Signaled bool   // this agent had sent the rank a signal to end
	Awaited  bool   // the rank has not finalized PMI, PMIx or Charm++, so other ranks may wait for it
	PMI      bool   // the rank is a client of PMI, PMIx or Charm++
	Handles  bool   // the rank has registered for PMIx events about ranks that end, so the job can lose ranks
	Cause    string // reason of the end, if more is known than Status; otherwise empty
}

// RankDrained says that all output of a rank that has ended was passed to Step in RankOutput events.
type RankDrained struct{ Rank job.Slot }

// RankFenced answers a Fence. Left lists the processes of the rank that have survived SIGKILL.
type RankFenced struct {
	Rank job.Slot
	Left []Unkillable
}

// NodeEmptied answers an EmptyNode. Left lists the processes that have survived SIGKILL.
type NodeEmptied struct{ Left []Unkillable }

// Respawned answers a Refork. If Code is 0, the rank runs. Otherwise the rank could not be started because of Cause,
// and Code is as in ForkFailure.
type Respawned struct {
	Rank  job.Slot
	Code  uint8
	Cause string
}

// RankFrame is a message of a rank of this node, or of the agent's PMI, PMIx or Charm++ server on behalf of the rank.
type RankFrame struct {
	Rank job.Slot
	Msg  frame.Message
}

// BulkRequested says that the PMI server of this node needs the values that the ranks of all nodes have put before the
// fence with the number Fence. The fence has completed on this node. The core answers with BulkFetched.
type BulkRequested struct{ Fence uint32 }

// BulkRead answers a ReadBulk. The core retains Value, so the driver must not change it.
type BulkRead struct {
	Fence uint32
	Value []byte // values of this node; empty if it has none
}

// MPIFindings reports facts about the use of MPI on this node. If several such events arrive, their
// findings add up.
type MPIFindings struct{ job.MPIFindings }

// RankInputRead says that a rank of this node has read N bytes of its standard input.
type RankInputRead struct {
	Rank job.Slot
	N    int
}

// RankInputClosed says that a rank of this node has closed its standard input.
type RankInputClosed struct{ Rank job.Slot }

// Killed answers a KillRanks. Left lists the processes that have survived SIGKILL.
type Killed struct{ Left []Unkillable }

// Swept answers a Sweep. Left lists the processes that have survived SIGKILL.
type Swept struct{ Left []Unkillable }

// JobSwept answers a SweepJob. Killed is the number of processes killed. Left lists those that have survived SIGKILL.
type JobSwept struct {
	Killed uint32
	Left   []Unkillable
}

// NodeSwept answers a SweepNode of the node Index.
type NodeSwept struct {
	Index  job.NodeIndex
	Killed uint32 // number of processes of the lost agent that were killed
	Left   string // names of the processes that have survived SIGKILL, for the user; empty if there are none
	Cause  string // reason why the sweep failed, so that Killed and Left are unknown; empty if it succeeded
}

// Unkillable is a process that was sent SIGKILL and is still alive after a timeout.
type Unkillable struct {
	PID   int
	Name  string // name of its program, as ps shows it
	State string // process state, a letter of proc(5); D is a sleep in the kernel that signals do not interrupt
}

// ReaperLost says that the reaper, the process that has started this agent and kills what the agent leaves, has died.
type ReaperLost struct{}

// EndRequested says that this agent, which is not the root, has received a signal to end. The signal was sent on this
// node, to the agent or to its reaper.
type EndRequested struct{ Signal uint8 }

// Tick says that the time At of the newest SetTimer has been reached.
type Tick struct{}

// Probed answers a Probe. It has the state of the TCP connection of the link, as read from this machine's kernel.
type Probed struct {
	Link   Link
	Known  bool   // the kernel has this connection; if false, the other fields are zero
	Resent int    // number of retransmissions of the oldest unacknowledged segment
	Waits  bool   // data is unacknowledged, or is unsent although the receiver's window is open
	Acked  uint64 // bytes that the receiver has acknowledged since the connection began; 0 if unknown
}

// Begin starts the job. It is the first event of the root.
type Begin struct{ Launch wire.Launch }

// StdinRead is data or the end of the root's own standard input, or a new size of its terminal.
type StdinRead struct {
	Data   []byte
	EOF    bool       // standard input has ended after Data, or could not be read
	Window job.Window // new size of the terminal; zero if it has not changed
}

// Wrote answers a Write at the root. N is the length of its data in bytes.
type Wrote struct{ N int }

// SinkFailed says that the root could not write output of ranks because of Cause. No more output is written. Pipe is
// true if the reader of the output has closed it (EPIPE).
type SinkFailed struct {
	Pipe  bool
	Cause string
}

// JobAnswered says that the job of a StartJob runs, or that it could not be started.
type JobAnswered struct {
	Rank      job.Slot // rank that has spawned the job
	JobID     string
	Namespace string // PMIx namespace of the spawned job
	Refused   string // reason why the spawned job does not run; empty if it runs
}

// JobAsked is a request of a job that a rank of this job has spawned: to publish, to unpublish or to look up a name in
// MPI's name service. Job is the number in the StartJob.
type JobAsked struct {
	Job  uint32
	Name rankwire.Name
}

// JobEnded says that a spawned job has ended. Job is the number in its StartJob, and Code is the exit code of its root.
// Ran is true if the job ran, as JobAnswered has reported before.
type JobEnded struct {
	Job  uint32
	Ran  bool
	Code int
}

// ParentAnswered answers the AskParent with the same Name.ID.
type ParentAnswered struct{ Name rankwire.Name }

// Interrupted says that the root has received a signal, or that another event at the root acts like this signal. For
// example, a request to end the job acts like SIGTERM.
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
