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

// Open starts the machine when the agent has received its Launch. The agent of the root receives its Launch at the
// start of the job.
type Open struct {
	Job *job.Job

	// The following fields are used only at the root.
	Host        string // host of this agent
	Members     Members
	Limit       Limit
	RepairAsked bool // the user wants a job that uses PMI to continue without the ranks of a lost node
}

// NodeStarted says that the ranks of this node have been ordered to start.
type NodeStarted struct{}

// Launched says that the launch of this agent's subtree is complete. At the root, the launch of the job has succeeded.
type Launched struct{}

// Ended says that the job ends on this agent. After this event the machine restarts no ranks.
type Ended struct{}

// Order is a message from the parent: a wire.Floor, wire.Respawn, wire.Recall, wire.Standing or rankwire.Failures. The
// core also creates an Order of its own for each Announce at the root.
type Order struct{ Msg frame.Message }

// Answer is a message from a child: a wire.FloorSet, wire.Recalled, wire.Respawned, wire.Replaced or rankwire.Failures.
// From is not used for a wire.Replaced.
type Answer struct {
	From subtree.Link
	Msg  frame.Message
}

// RankFailed says that a rank of this node has failed and may be restarted.
type RankFailed struct{ Rank job.Slot }

// RankRecalled says that a rank of this node has ended because of a Recall.
type RankRecalled struct{ Rank job.Slot }

// RankFenced completes a Fence. Left describes the processes of the rank that survived SIGKILL.
type RankFenced struct {
	Rank job.Slot
	Left string
}

// RankDrained says that all output of a rank of this node has been read.
type RankDrained struct{ Rank job.Slot }

// NodeEmptied completes an EmptyNode. Left describes the processes of this node that survived SIGKILL.
type NodeEmptied struct{ Left string }

// RankRespawned completes a Refork. If Code is not 0, the rank could not be started because of Cause.
type RankRespawned struct {
	Rank  job.Slot
	Code  uint8
	Cause string
}

// NodeRespawned completes a StartNode. If Code is not 0, Rank could not be started because of Cause.
type NodeRespawned struct {
	Rank  job.Slot
	Code  uint8
	Cause string
}

// NodeForked says that the agent has tried to start the ranks of this node for the first time. Some of these starts may
// have failed.
type NodeForked struct{}

// ChildVacant says that a child has become the place of a lost node, where no agent runs.
type ChildVacant struct{ Child subtree.Link }

// Relinked says that a new parent has resumed the link to this agent.
type Relinked struct{}

// RanksLost says that ranks have failed and will not be restarted.
type RanksLost struct{ Ranks Span }

// Failure says at the root that ranks have failed, or that a rank has asked for a restart of all ranks. Spawned reports
// whether any job that ranks of this job have spawned is running.
type Failure struct {
	Fault   wire.Fault
	Spawned bool
}

// NodeLost says at the root that the agent of a node was lost.
type NodeLost struct {
	Fault    wire.Fault
	Repaired bool          // the parent of the lost agent has adopted its children
	Spawned  bool          // as in Failure
	Session  time.Duration // expected duration of the start of a remote session
}

// EndedBy says at the root that the job ends because of Fault.
type EndedBy struct {
	Fault   wire.Fault
	Session time.Duration // as in NodeLost
}

// Sweeping says at the root that all children have ended. The job ends when the sweeps of nodes have ended or their
// time is over. Ends contains the exit statuses of the ranks.
type Sweeping struct {
	Ends    []job.StatusRun
	Session time.Duration // as in NodeLost
}

// NodeSwept completes a SweepNode.
type NodeSwept struct {
	Index  job.NodeIndex
	Killed uint32 // number of processes of the lost agent and its ranks that were killed
	Left   string // describes the processes that survived SIGKILL, for the user
	Cause  string // why the node could not be swept, or ""
}

// ChildrenSilent says that a child has not reported in time how the ranks of its subtree ended. Only the root uses this
// event.
type ChildrenSilent struct{}

// PMIUsed says that ranks use PMI. Only the root uses this event.
type PMIUsed struct{}

// Abort says at the root that a rank has aborted the job.
type Abort struct{ Fault wire.Fault }

// Quiet says that no rank of this node runs, and that this agent has forwarded all output of its subtree.
type Quiet struct{}

// Exiting says that this agent is about to report the end of its subtree.
type Exiting struct{}

// Tick says at the root that time has passed. The time of a Wake may have come.
type Tick struct{}

// Settle follows each event of the core, after the core has applied that event.
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
