package recovery

import (
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Effect is an action that the core must perform, in the order given.
type Effect interface{ effect() }

// Send sends a message over a link.
type Send struct {
	To  subtree.Link
	Msg frame.Message
}

// SendDown sends a message to all children.
type SendDown struct{ Msg frame.Message }

// SendRanks sends a message to all ranks of this node that have joined the job.
type SendRanks struct{ Msg frame.Message }

// Forget makes questions about a rank of this node wait for its next start.
type Forget struct{ Rank job.Slot }

// Fence kills the processes that a failed rank of this node has left, for at most FencePatience. RankFenced follows.
type Fence struct{ Rank job.Slot }

// EmptyNode kills all processes of this node's ranks, for at most FencePatience. NodeEmptied follows.
type EmptyNode struct{}

// Terminate sends SIGTERM to the ranks of this node.
type Terminate struct{}

// PassRespawn sends an order to the children whose subtrees contain some of its ranks.
type PassRespawn struct{ Order wire.Respawn }

// ForgetReports says that the failures that ranks of this node have reported do not count any more.
type ForgetReports struct{}

// Renew renews the servers of this node's ranks, none of which runs.
type Renew struct{}

// Refork starts a rank of this node again. RankRespawned follows.
type Refork struct {
	Rank  job.Slot
	Start uint8
}

// StartNode starts all ranks of this node for the first time. NodeRespawned follows.
type StartNode struct{}

// Raise applies a floor that has just become valid: connections, collectives and look-ups forget older starts. It also
// sends the floor to all children.
type Raise struct{ Floor wire.Floor }

// Announce asks at the root for a Floor order with the number of the next collective.
type Announce struct {
	Serial uint32
	Span   Span
	Epoch  uint16
}

// Awake says that ranks of this subtree may run again.
type Awake struct{}

// Restarting reports at the root that ranks are restarted because of Fault. If All is set, all ranks are restarted.
// Number counts the restarts.
type Restarting struct {
	Fault  wire.Fault
	All    bool
	Number int
}

// ForgetNames removes all services of MPI's name service, at the root.
type ForgetNames struct{}

// GiveUpPlaces gives up the places of lost nodes whose ranks are not restarted.
type GiveUpPlaces struct{ Ranks rankwire.SlotSpans }

// Notice tells the user something, at the root.
type Notice struct{ Notice rankwire.Notice }

// LoseNode records at the root the loss of a node, after which the job continues.
type LoseNode struct{ Fault wire.Fault }

// PlaceAgent starts an agent in the place of a lost one, or sends the order to the agent that has lost it. The event
// Answer with a wire.Replaced follows.
type PlaceAgent struct{ Order wire.Replace }

// SweepNode opens a session to a node and kills what a lost agent has left there. NodeSwept follows within the time
// Most.
type SweepNode struct {
	Node  job.Node
	Index job.NodeIndex
	Local bool // the node is this machine
	Grace time.Duration
	Most  time.Duration
}

// EndJob ends the job at the root because of a failure.
type EndJob struct{ Fault wire.Fault }

// EndQuietJob ends the job at the root, because all ranks have ended and none is restarted.
type EndQuietJob struct{}

// Wake asks for a Tick at the time At, at the latest.
type Wake struct{ At time.Duration }

func (Send) effect()          {}
func (SendDown) effect()      {}
func (SendRanks) effect()     {}
func (Forget) effect()        {}
func (Fence) effect()         {}
func (EmptyNode) effect()     {}
func (Terminate) effect()     {}
func (Renew) effect()         {}
func (Refork) effect()        {}
func (StartNode) effect()     {}
func (Raise) effect()         {}
func (Announce) effect()      {}
func (Awake) effect()         {}
func (Restarting) effect()    {}
func (ForgetNames) effect()   {}
func (GiveUpPlaces) effect()  {}
func (PassRespawn) effect()   {}
func (ForgetReports) effect() {}
func (Notice) effect()        {}
func (LoseNode) effect()      {}
func (PlaceAgent) effect()    {}
func (SweepNode) effect()     {}
func (EndJob) effect()        {}
func (EndQuietJob) effect()   {}
func (Wake) effect()          {}
