package recovery

import (
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/internal/job"
)

// Event is an input of the Machine of an agent: a message, the completion of an effect, or a change on its node.
type Event interface{ event() }

// Open initializes the machine. It is the first event, and comes when the agent has received its Launch. At the root,
// it comes when the job begins.
type Open struct {
	Job *job.Job

	// The following fields are used only at the root.
	Host        string  // host of this agent
	Members     Members // nodes and spares of the job
	Limit       Limit   // maximum number of restarts
	RepairAsked bool    // the user wants a job that uses PMI to continue without the ranks of a lost node
}

// NodeStarted says that the agent begins to start the ranks of this node for the first time.
type NodeStarted struct{}

// Launched says that the launch of this agent's subtree is complete. At the root, it says that the launch of the
// job has succeeded.
type Launched struct{}

// Ended says that the job ends on this agent. After this event the machine restarts no ranks.
type Ended struct{}

// Order is a message from the parent: a wire.Floor, wire.Respawn, wire.Recall, wire.Standing or rankwire.Failures. At
// the root, it contains the wire.Floor that the core has created for an Announce.
type Order struct{ Msg frame.Message }

// Answer is a message from a child: a wire.FloorSet, wire.Recalled, wire.Respawned, wire.Replaced or rankwire.Failures.
// The core creates a Replaced itself if this agent has handled the Replace. It creates a Recalled for a new agent that
// replaces a lost child, because no rank of the new agent runs. The machine uses From only for a FloorSet or Recalled.
type Answer struct {
	From subtree.Link
	Msg  frame.Message
}

// RankFailed says that a rank of this node has failed and may be restarted.
type RankFailed struct{ Rank job.Slot }

// RankRecalled says that a rank of this node has ended while a Recall ends the ranks of this node.
type RankRecalled struct{ Rank job.Slot }

// RankFenced completes a Fence. Left describes the processes of the rank that survived SIGKILL. It is empty if none
// did.
type RankFenced struct {
	Rank job.Slot
	Left string
}

// RankDrained says that all output of a rank of this node has been read.
type RankDrained struct{ Rank job.Slot }

// NodeEmptied completes an EmptyNode. Left describes the processes of this node's ranks that survived SIGKILL. It is
// empty if none did.
type NodeEmptied struct{ Left string }

// RankRespawned completes a Refork.
type RankRespawned struct {
	Rank  job.Slot
	Code  uint8  // 0 if the rank runs, otherwise its exit code
	Cause string // why the rank could not be started, or ""
}

// NodeRespawned completes a StartNode.
type NodeRespawned struct {
	Rank  job.Slot // a rank that could not be started; not used if Code is 0
	Code  uint8    // 0 if all ranks of the node run, otherwise the exit code of Rank
	Cause string   // why Rank could not be started, or ""
}

// NodeForked says that the first start of this node's ranks is complete. Some of the ranks may have failed to start.
type NodeForked struct{}

// ChildVacant says that a child has no agent, because the agent of its node was lost. The core retains this child until
// a new agent runs.
type ChildVacant struct{ Child subtree.Link }

// Relinked says that this agent has a new parent, to which it can send messages.
type Relinked struct{}

// RanksLost says that ranks have failed and will not be restarted.
type RanksLost struct{ Ranks Span }

// Failure says at the root that ranks have failed and may be restarted, or that a rank has asked for a restart of all
// ranks.
type Failure struct {
	Fault   wire.Fault
	Spawned bool // a job that ranks of this job have spawned is running
}

// NodeLost says at the root that the agent of a node was lost.
type NodeLost struct {
	Fault    wire.Fault
	Repaired bool          // the parent of the lost agent has adopted the children of the lost agent
	Spawned  bool          // as in Failure
	Session  time.Duration // expected duration of the start of a remote session
}

// EndedBy says at the root that the job ends because of Fault. It is not used for failures of a rank or of the launch.
type EndedBy struct {
	Fault   wire.Fault
	Session time.Duration // as in NodeLost
}

// Sweeping says at the root that all children have ended. The core repeats it until Swept returns true. The job then
// ends.
type Sweeping struct {
	Ends    []job.StatusRun // exit statuses of the ranks
	Session time.Duration   // as in NodeLost
}

// NodeSwept completes a SweepNode.
type NodeSwept struct {
	Index  job.NodeIndex
	Killed uint32 // number of processes of the lost agent and its ranks that were killed
	Left   string // describes the processes that survived SIGKILL, for the user; "" if none did
	Cause  string // why the node could not be swept, or ""
}

// ChildrenSilent says that a child has not reported in time how the ranks of its subtree ended. Only the root uses this
// event.
type ChildrenSilent struct{}

// PMIUsed says that ranks of the job use PMI. Only the root uses this event.
type PMIUsed struct{}

// Abort says at the root that a rank has aborted the job.
type Abort struct{ Fault wire.Fault }

// Quiet says that no rank of this node runs, and that this agent has forwarded all output that it has received.
type Quiet struct{}

// Exiting says that all ranks of this subtree have ended and that this agent is about to report this to its parent.
type Exiting struct{}

// Tick asks the machine of the root to check its deadlines.
type Tick struct{}

// Settle asks the machine to perform the steps that have become possible. The core passes it after each event that it
// has handled.
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
