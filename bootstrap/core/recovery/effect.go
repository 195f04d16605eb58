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

// Forget discards the values that the last program of a rank of this node has published, such as its address. Look-ups
// of these values then wait for the rank's next program.
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

// ForgetReports discards the record of the rank failures that this agent has reported, so that it reports failures of
// its ranks again after they have been restarted.
type ForgetReports struct{}

// Renew replaces the servers that this node's ranks use by new ones, before all ranks of the node are restarted. No
// rank of the node runs at this time.
type Renew struct{}

// Refork starts a rank of this node again. RankRespawned follows.
type Refork struct {
	Rank  job.Slot
	Start uint8 // number of restarts of the rank, including this one
}

// StartNode starts all ranks of this node for the first time. NodeRespawned follows.
type StartNode struct{}

// Raise applies a new floor: connections, collectives and look-ups discard the state of earlier programs of the
// restarted ranks. The core also sends the floor to the ranks of this node and to all children.
type Raise struct{ Floor wire.Floor }

// Announce announces a floor from the root. The core passes an Order with the wire.Floor to Step. It adds the number of
// the last collective that fails because of the restart.
type Announce struct {
	Serial uint32 // serial number of the floor
	Span   Span   // ranks that are restarted
	Epoch  uint16 // oldest valid epoch of these ranks
}

// Awake says that ranks of this subtree may run again. At the root, the core then cancels the deadline for the end of
// the job. It had set that deadline when the first ranks ended.
type Awake struct{}

// Restarting tells the user, at the root, that ranks are restarted because of Fault.
type Restarting struct {
	Fault  wire.Fault
	All    bool // the restarted ranks include ranks that have not failed
	Number int  // number of restarts that count for the Limit, including this one
}

// ForgetNames removes all entries of MPI's name service, at the root.
type ForgetNames struct{}

// GiveUpPlaces stops waiting for new agents on the lost nodes that have ranks in Ranks. These ranks are not restarted.
// The core removes the children that it has retained for these nodes.
type GiveUpPlaces struct{ Ranks rankwire.SlotSpans }

// Notice shows a message to the user, at the root.
type Notice struct{ Notice rankwire.Notice }

// LoseNode records the loss of a node at the root and tells the user. The job continues without the node.
type LoseNode struct{ Fault wire.Fault }

// PlaceAgent starts a new agent in place of a lost one. If the lost agent was not a child of the root, the core sends
// the order down the tree to the parent of the lost agent. An Answer with a wire.Replaced follows.
type PlaceAgent struct{ Order wire.Replace }

// SweepNode opens a session from the root to a node and kills the processes that a lost agent and its ranks have left.
// NodeSwept follows.
type SweepNode struct {
	Node  job.Node
	Index job.NodeIndex
	Local bool          // the node is this machine
	Grace time.Duration // time from SIGTERM to SIGKILL
	Most  time.Duration // maximum duration of the session, including the sweep
}

// EndJob ends the job at the root because of a failure.
type EndJob struct{ Fault wire.Fault }

// EndQuietJob ends the job at the root, because all ranks have ended and none is restarted.
type EndQuietJob struct{}

// Wake sets the timer of the core, so that Step is called again at the time At or earlier.
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
