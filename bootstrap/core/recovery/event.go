package recovery

import (
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/internal/job"
)

// Event is an event of one agent that the Machine handles.
type Event interface{ event() }

// Open starts the machine of an agent that has received its Launch. At the root it is the start of the job.
type Open struct {
	Job *job.Job

	// The following fields are for the root only.
	Host        string // host of this agent
	Members     Members
	Limit       Limit
	RepairAsked bool // the user wants a job that uses PMI to continue without the ranks of a lost node
}

// NodeStarted says that the ranks of this node have been ordered to start.
type NodeStarted struct{}

// Launched says that the launch of this agent's subtree is complete.
type Launched struct{}

// Ended says that this agent's part of the job ends. The machine does nothing any more.
type Ended struct{}

// Order is a message from the parent: a wire.Floor, wire.Respawn, wire.Recall or rankwire.Failures.
type Order struct{ Msg frame.Message }

// Answer is a message from a child: a wire.FloorSet, wire.Recalled, wire.Respawned, wire.Rest or rankwire.Failures.
type Answer struct {
	From subtree.Link
	Msg  frame.Message
}

// RankFailed says that a rank of this node has failed and may be restarted.
type RankFailed struct{ Rank job.Slot }

// RankRecalled says that a rank of this node has ended because of a Recall.
type RankRecalled struct{ Rank job.Slot }

// RankFenced ends a Fence. Left describes the processes of the rank that survived SIGKILL.
type RankFenced struct {
	Rank job.Slot
	Left string
}

// RankDrained says that the output of a rank of this node has been read to its end.
type RankDrained struct{ Rank job.Slot }

// NodeEmptied ends an EmptyNode. Left describes the processes of this node that survived SIGKILL.
type NodeEmptied struct{ Left string }

// RankRespawned ends a Refork. If Code is not 0, the rank could not be started because of Cause.
type RankRespawned struct {
	Rank  job.Slot
	Code  uint8
	Cause string
}

// NodeRespawned ends a StartNode. If Code is not 0, Rank could not be started because of Cause.
type NodeRespawned struct {
	Rank  job.Slot
	Code  uint8
	Cause string
}

// NodeForked says that the ranks of this node were started for the first time.
type NodeForked struct{}

// ChildVacant says that a child is the place of a lost node, which has no agent.
type ChildVacant struct{ Child subtree.Link }

// Relinked says that this agent has a new parent.
type Relinked struct{}

// RanksLost says that ranks have failed and are not restarted.
type RanksLost struct{ Ranks Span }

// Failure is the failure of ranks, or the request of a rank that all ranks are restarted, at the root. Spawned reports
// whether jobs that ranks have spawned are running.
type Failure struct {
	Fault   wire.Fault
	Spawned bool
}

// NodeLost says at the root that the agent of a node was lost.
type NodeLost struct {
	Fault    wire.Fault
	Repaired bool          // its parent has adopted the agents below it
	Spawned  bool          // jobs that ranks have spawned are running
	Session  time.Duration // how long a session is expected to take
}

// EndedBy says at the root that the job ends because of Fault.
type EndedBy struct {
	Fault   wire.Fault
	Session time.Duration // as in NodeLost
}

// Sweeping says at the root that all children have ended, and how all ranks of the job have ended.
type Sweeping struct {
	Ends    []job.StatusRun
	Session time.Duration // as in NodeLost
}

// NodeSwept ends a SweepNode.
type NodeSwept struct {
	Index  job.NodeIndex
	Killed uint32 // processes that the lost agent had left
	Left   string // describes the processes that survived SIGKILL, for the user
	Cause  string // why the node could not be swept, or ""
}

// ChildrenSilent says at the root that children have not reported in time how their ranks ended.
type ChildrenSilent struct{}

// PMIUsed says at the root that ranks use PMI.
type PMIUsed struct{}

// Abort says at the root that a rank has ended the job.
type Abort struct{ Fault wire.Fault }

// Quiet says that no process of this node runs, and that its output has been forwarded.
type Quiet struct{}

// Exiting says that this agent is about to report the end of its subtree.
type Exiting struct{}

// Tick says that a time for which a Wake has asked may have come.
type Tick struct{}

// Settle comes after all other events that have happened at one time.
type Settle struct{}

func (Open) event()           {}
func (NodeStarted) event()    {}
func (Launched) event()       {}
func (Ended) event()          {}
func (Order) event()          {}
func (Answer) event()         {}
func (RankFailed) event()     {}
func (RankRecalled) event()   {}
func (RankFenced) event()     {}
func (RankDrained) event()    {}
func (NodeEmptied) event()    {}
func (RankRespawned) event()  {}
func (NodeRespawned) event()  {}
func (NodeForked) event()     {}
func (ChildVacant) event()    {}
func (Relinked) event()       {}
func (RanksLost) event()      {}
func (Failure) event()        {}
func (NodeLost) event()       {}
func (EndedBy) event()        {}
func (Sweeping) event()       {}
func (NodeSwept) event()      {}
func (ChildrenSilent) event() {}
func (PMIUsed) event()        {}
func (Abort) event()          {}
func (Quiet) event()          {}
func (Exiting) event()        {}
func (Tick) event()           {}
func (Settle) event()         {}
