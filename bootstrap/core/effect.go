package core

import (
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Effect is an action that the driver must perform. The driver performs the effects of a Step in their order.
type Effect = subtree.Effect

// Send sends a message over a link. Output and Exit messages keep their order. Other messages may overtake them.
type Send = subtree.Send

// StartChild opens a session to a child. The driver answers with one ChildUp or ChildFailed.
type StartChild struct {
	Child Link
	Node  job.Node
	Local bool          // the node is this machine, so the session needs no remote shell
	Most  time.Duration // timeout of the session; 0 means Launch.Timeout of the job
}

// ObserveSessions requests the time for which the processes that open sessions have run or waited for a processor. The
// driver answers with SessionsObserved.
type ObserveSessions struct{}

// JoinChild opens a session to an agent of this job that has lost its parent, to become its new parent. Within the time
// Most, the driver answers with one ChildUp, ChildFailed or JoinRefused.
type JoinChild struct {
	Child Link
	Node  job.Node
	Local bool
	Most  time.Duration
	Key   job.NodeIndex // index that the node had when its agent was launched, which names the agent
	Level uint32        // level of this agent in the tree; 0 is the root
}

// CloseLink closes a link. If the link leads to a child, CloseLink also kills the child's session. If the session is
// still being opened, the driver cancels it.
type CloseLink struct{ Link Link }

// Fork starts this node's ranks. The driver answers with ForkDone.
type Fork struct {
	Job   *job.Job
	Node  job.Node
	Index job.NodeIndex
	Start uint8  // number of the start, which all ranks have in common; 0 is the first start of the ranks
	Op    uint32 // collectives with this number or a smaller one belong to earlier starts and have failed
}

// Renew replaces the PMI, PMIx and Charm++ servers of this node by new ones, because all ranks of the node will be
// started again. None of them runs.
type Renew struct {
	Job   *job.Job
	Node  job.Node
	Index job.NodeIndex
	Op    uint32 // as in Fork
}

// EmptyNode kills the ranks of this node and the processes that they have left, and waits at most the time Most for
// their deaths. Ranks can be started again afterwards. The driver answers with NodeEmptied.
type EmptyNode struct{ Most time.Duration }

// Resume lets the driver read the next chunk of RankOutput from one stream of a rank.
type Resume struct {
	Rank   job.Slot
	Stream uint8
}

// SignalRanks sends a signal to the process group of each live rank.
type SignalRanks struct{ Number uint8 }

// StopRanks stops all descendants of this agent except its sessions to children. The ranks are among them.
type StopRanks struct{}

// ContinueRanks continues the processes that StopRanks has stopped.
type ContinueRanks struct{}

// KillRanks kills all descendants of this agent except its sessions to children, until all are dead or the time Most
// has passed. No rank can be started afterwards. The driver answers with Killed.
type KillRanks struct{ Most time.Duration }

// Fence kills the processes that an exited rank has left, and waits at most the time Most for their deaths. The driver
// answers with RankFenced.
type Fence struct {
	Rank job.Slot
	Most time.Duration
}

// Refork starts a rank of this node again. All its earlier processes have ended. Start is the number of the new start,
// counted from 0 for the first one. The standard input of the new process is empty. The driver answers with Respawned.
type Refork struct {
	Rank  job.Slot
	Start uint8
}

// Sweep kills all processes that the ranks have left: the descendants of this agent except its sessions to children.
// It waits at most the time Most for their deaths. The driver answers with Swept.
type Sweep struct{ Most time.Duration }

// SweepJob kills the processes of a job that a lost agent has left on this machine. The driver answers with JobSwept.
// If the driver cannot look for the processes, it reports LinkLost for Up instead.
type SweepJob struct {
	Job   string        // ID of the job
	Node  job.NodeIndex // index of the lost agent's node
	Grace time.Duration // time before SIGKILL for processes whose agent is still alive and is ending them
}

// Feed writes Data to the standard input of a rank, and closes it afterwards if EOF is set. If Window is not zero, it
// is the new size of the rank's terminal. The driver answers with RankInputRead or RankInputClosed.
type Feed struct {
	Rank   job.Slot
	Data   []byte
	EOF    bool
	Window job.Window
}

// SendRank sends a message to a rank of this node, or to the PMI, PMIx or Charm++ server whose client the rank is.
type SendRank struct {
	Rank job.Slot
	Msg  frame.Message
}

// Connect creates a socket pair and sends one end to each of two ranks of this node, with a rankwire.Pair that names
// the other rank.
type Connect struct{ A, B job.Slot }

// ReadBulk requests the PMI values that the ranks of this node have put before the fence with the number Fence. The
// driver answers with BulkRead.
type ReadBulk struct{ Fence uint32 }

// BulkFetched answers BulkRequested. Values has the values of all nodes that could be reached. It is empty if they are
// too large for one message. The driver must not change Values.
type BulkFetched struct {
	Fence  uint32
	Values frame.Values
}

// SetTimer requests one Tick at the time At, on the clock of Core.Step. It replaces an earlier SetTimer.
type SetTimer struct{ At time.Duration }

// Probe asks whether the kernel at the other end of a link still acknowledges data. The driver answers with Probed.
type Probe struct{ Link Link }

// Finish ends this agent, which is not the root. No other effect follows.
type Finish struct{}

// Leave kills all processes of the job on this node and ends the agent, which is not the root. Its parent and children
// notice this because their links to it end. The exit code of the agent is that of a process killed by Signal.
type Leave struct{ Signal uint8 }

// Effects of the root only.

// SweepNode opens a session to a node whose agent was lost and sends wire.Sweep over it. Within the time Most, the
// driver answers with one NodeSwept.
type SweepNode struct {
	Node  job.Node
	Index job.NodeIndex
	Local bool          // the node is this machine, so the session needs no remote shell
	Grace time.Duration // as in SweepJob
	Most  time.Duration
}

// ReadStdin allows the driver to read N more bytes from the root's standard input.
type ReadStdin struct{ N int }

// Write writes output of a rank to the root's output. The driver answers with Wrote or SinkFailed.
type Write struct {
	Rank   job.Slot
	Stream uint8
	Data   []byte
}

// Suspend stops the process of the root, because the user has stopped the job at the terminal (SIGTSTP).
type Suspend struct{}

// Report shows something to the user before the job has ended. What is a wire.Fault, wire.Waiting, wire.Placed,
// rankwire.Notice, Restarting, Missing, Progress or LaunchDone.
type Report struct{ What any }

// Restarting says that failed ranks are started again.
type Restarting struct {
	Fault  wire.Fault
	All    bool // other ranks, which have not failed, are restarted with them
	Number int  // number of the restart, from 1, among those that count towards the maximum
}

// Progress is reported during the launch when a child of the root has sent Ready. Nodes is the number of nodes in the
// subtrees of all children that have done so.
type Progress struct{ Nodes int }

// LaunchDone reports that the launch is complete. Unless Launch.Timed is set, Times has only the moments that the root
// has observed in its own sessions.
type LaunchDone struct {
	Agents  uint32                   // number of agents that are up, including the root
	Times   []job.NodeTimes          // parents before their children
	Missing uint32                   // number of nodes that are not in Times because there are too many
	Spares  map[job.NodeIndex]string // hosts of the spares, keyed by the index of the node that each replaces
}

// StartJob starts the job that a rank has spawned, with a root of its own. The driver answers with one JobAnswered and
// later one JobEnded. Job is the number of the spawned job, from 1.
type StartJob struct {
	Job   uint32
	Spawn rankwire.SpawnJob
}

// SignalJobs sends a signal to the roots of all spawned jobs that have not ended.
type SignalJobs struct{ Number uint8 }

// AnswerJob answers a JobAsked of the spawned job with the number Job.
type AnswerJob struct {
	Job  uint32
	Name rankwire.Name
}

// AskParent sends a request to MPI's name service to the root of the job that has spawned this job. The driver answers
// with a ParentAnswered that has the same Name.ID. Answers may come in any order.
type AskParent struct{ Name rankwire.Name }

// Done ends the root and its job.
type Done struct{ Outcome Outcome }

// CauseKind is the kind of the first event that made the job fail or end early.
type CauseKind uint8

const (
	CauseNone      CauseKind = iota // all ranks ended by themselves, and no failure was reported
	CauseFault                      // a rank, a node or an agent failed, or a rank aborted the job; see Outcome.Fault
	CauseTimeout                    // the time limit of the job expired
	CauseSignal                     // ibrun received a signal to end; see Outcome.Signal
	CauseSink                       // ibrun could not write output of ranks; see Outcome.Text
	CauseWait                       // the time limit of -W expired, which starts when the first ranks have ended
	CauseOffspring                  // a job that a rank has spawned failed
)

// Outcome is the result of a job.
type Outcome struct {
	Code       int // exit code of ibrun
	Cause      CauseKind
	EndedBy    CauseKind       // CauseTimeout or CauseWait if one of them ended a job that had continued despite Cause
	Fault      wire.Fault      // failure that is considered the cause, if Cause is CauseFault
	Faults     []wire.Fault    // reported failures, including Fault, up to a maximum number
	Fallbacks  []wire.Fault    // failed sessions to nodes that another session has reached, up to a maximum number
	Signal     uint8           // signal that ended the job, if Cause is CauseSignal
	Text       string          // reason why output could not be written, if Cause is CauseSink
	Runs       []job.StatusRun // how the ranks ended
	Truncated  uint64          // bytes of output that were dropped
	AllStarted bool            // the launch was completed
	Tally      job.Tally
	MPI        job.MPIFindings
	Times      []job.NodeTimes // known times of a launch that was not completed; empty if AllStarted
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
