package recovery

import (
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Effect is an action that the core must perform. The core performs the effects of an event in order.
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

// Forget discards what is known about the present start of a rank of this node. Questions about the rank then wait for
// its next start.
type Forget struct{ Rank job.Slot }

// Fence kills the processes that a failed rank of this node has left, and waits up to FencePatience for their end.
// RankFenced follows.
type Fence struct{ Rank job.Slot }

// EmptyNode kills all processes of this node's ranks, and waits up to FencePatience for their end. NodeEmptied follows.
type EmptyNode struct{}

// Terminate sends SIGTERM to the ranks of this node.
type Terminate struct{}

// PassRespawn sends Order to the children whose subtrees contain ranks of the order.
type PassRespawn struct{ Order wire.Respawn }

// ForgetReports discards the record of failures that this agent has reported for its ranks, so that it reports the
// failures of their next starts.
type ForgetReports struct{}

// Renew replaces the servers that serve this node's ranks, before all ranks of the node are started again. No rank of
// the node runs meanwhile.
type Renew struct{}

// Refork starts a rank of this node again. RankRespawned follows.
type Refork struct {
	Rank  job.Slot
	Start uint8 // number of restarts of the rank, including this one
}

// StartNode starts all ranks of this node for the first time. NodeRespawned follows.
type StartNode struct{}

// Raise applies a floor that has just arrived: connections, collectives and look-ups discard what belongs to older
// starts. It also sends the floor to the ranks of this node and to all children.
type Raise struct{ Floor wire.Floor }

// Announce asks the core of the root for an Order with a wire.Floor. The core adds the number of the next collective.
type Announce struct {
	Serial uint32
	Span   Span
	Epoch  uint16
}

// Awake says that ranks of this subtree may run again. At the root, the core then cancels the deadline that it has set
// when the first ranks ended.
type Awake struct{}

// Restarting tells the user, at the root, that ranks are restarted because of Fault.
type Restarting struct {
	Fault  wire.Fault
	All    bool // more ranks than those that have failed are restarted
	Number int  // number of restarts that count for the Limit, including this one
}

// ForgetNames removes all entries of MPI's name service, at the root.
type ForgetNames struct{}

// GiveUpPlaces removes the children that are places of lost nodes and whose ranks are in Ranks. These ranks are not
// restarted.
type GiveUpPlaces struct{ Ranks rankwire.SlotSpans }

// Notice shows a message to the user, at the root.
type Notice struct{ Notice rankwire.Notice }

// LoseNode records at the root the loss of a node, after which the job continues.
type LoseNode struct{ Fault wire.Fault }

// PlaceAgent starts an agent in the place of a lost one. If the lost agent was not a child of the root, the core sends
// the order down to its parent. An Answer with a wire.Replaced follows.
type PlaceAgent struct{ Order wire.Replace }

// SweepNode opens a session to a node and kills the processes that a lost agent and its ranks have left there.
// NodeSwept follows.
type SweepNode struct {
	Node  job.Node
	Index job.NodeIndex
	Local bool          // the node is this machine
	Grace time.Duration // time from SIGTERM to SIGKILL
	Most  time.Duration // maximum duration of the session
}

// EndJob ends the job at the root because of a failure.
type EndJob struct{ Fault wire.Fault }

// EndQuietJob ends the job at the root, because all ranks have ended and none is restarted.
type EndQuietJob struct{}

// Wake asks the core to call Step at the time At, or earlier.
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
