// Package child implements the state machine of a child of an agent. The state of a child says whether the child has a
// session or a link, how far its launch has progressed, and whether a successor may replace the child. A table gives
// the next state and the actions for each state and event. The parent passes events to a Child and performs the
// actions that Step returns.
package child

import "math/bits"

// State is the state of a child. It is one bit, so that several states can be combined into a set.
type State uint32

// The states of a child. In their descriptions, "it" is the child. docs/dev/children.md lists the transitions.
const (
	Waiting           State = 1 << iota // its node waits for a session
	Starting                            // a session to it is being opened
	Up                                  // its agent has its Launch and starts its subtree
	Ready                               // its subtree is ready
	Counted                             // it has sent its Tally, and its Exit follows
	GrowWaiting                         // as Waiting, of a node that comes to a running job
	GrowStarting                        // as Starting, of such a node
	GrowUp                              // as Up, of such a node
	GrowReady                           // as Ready, of such a node: the job does not count it yet
	SuccessorStarting                   // a session is being opened for the place of a lost child
	SuccessorUp                         // the agent for that place has its Launch
	Successor                           // it is ready and has the place
	Lost                                // its link has ended, and its place is kept for a successor
	Rejoining                           // its link has ended, and a session to the same agent is being opened
	Joining                             // its parent was lost, and a session to it is being opened
	Resumed                             // it has a new link, and has not said yet what it has missed
	Adopted                             // it has said so, and is ready
	Reported                            // its Exit has come, and it stays linked until the job ends
	Exited                              // its Exit has come, and it has no link
	Gone                                // it has ended without an Exit
	stateCount        = iota
)

// Sets of states.
const (
	Opening   = Starting | GrowStarting | SuccessorStarting       // the child's session takes a slot of the window
	Launching = Up | GrowUp | SuccessorUp                         // the child has its Launch and has not sent Ready
	Settled   = Ready | Counted | GrowReady | Successor | Adopted // the child has sent Ready, or State if adopted
	Heard     = Launching | Settled | Resumed                     // the parent handles frames of the child
	Linked    = Heard | Reported                                  // the child has a link to the parent
	Coming    = GrowWaiting | GrowStarting | GrowUp | GrowReady   // the nodes of the child are not in the job yet
	Replacing = SuccessorStarting | SuccessorUp                   // a successor whose lost child is not replaced yet
	Relinking = Rejoining | Joining                               // a new link to an agent of the job is being opened
	HasExited = Reported | Exited
	Ended     = HasExited | Gone

	waits    = Waiting | GrowWaiting
	unlinked = waits | Opening | Relinking
	member   = Ready | Counted | Successor | Adopted // the child is settled, and its nodes are in the job
	over     = Exited | Gone
)

// Event is an event of a child, as classified by the core. It is one bit, so that several events can be combined into a
// set.
type Event uint32

// The events of a child. In their descriptions, "it" is the child, and "this agent" is its parent.
const (
	Start         Event = 1 << iota // there is room for its session
	GiveBack                        // this agent reaches no node, and returns those that wait
	SessionUp                       // the agent behind the session answers
	SessionFailed                   // the session has failed, or the link of a successor before it was ready
	Unjoined                        // a session to join it was refused, or has failed while the job ends
	ReadyCame                       // the frame Ready
	StateCame                       // the frame State
	TallyCame                       // the frame Tally
	ExitCame                        // the frame Exit, in a job that does not repair its tree
	ExitStays                       // the frame Exit, in one that does
	LinkLost                        // the link has ended, and the job does not survive that
	LinkKept                        // the link has ended, and a successor may take the place
	LinkRejoined                    // the link has ended, and the agent may live
	LinkAdopted                     // the link has ended, the agent is lost, and the job goes on
	LinkLeft                        // the link has ended of an agent that has no nodes of the job any more
	End                             // this subtree ends
	EndSucceeded                    // this subtree ends, and a successor of this child is up
	Succeeded                       // a successor of this child is ready
	Abandon                         // the ranks of its place are lost for good
	GiveUp                          // the time of the job's end is over
	Enter                           // its nodes are of the job now
	eventCount    = iota
)

// Child is the state of one child. It keeps these invariants:
//
//  1. A child takes a slot of the window from OpenSession to FreeSlot. During this time its state is in Opening.
//  2. A child is removed once, by Remove, LeavePlace, Rejoin or AdoptBelow, when its state becomes one of Ended.
//  3. Before its removal, one action accounts for the ranks of the child: AddEnds, AddNotRun, AddLost, YieldNodes,
//     Rejoin or AdoptBelow.
//  4. A link or session that has not ended is closed when the child becomes Gone.
//  5. A child whose state is in Ended stays there. End or GiveUp ends each of the other children.
type Child struct{ state State }

// New returns a child in its first state: Waiting, GrowWaiting, SuccessorStarting, Rejoining, Joining or Lost.
func New(first State) (c Child) {
	c.become(first)
	return c
}

// In reports whether the child is in one of the states of a set.
func (c Child) In(set State) bool { return c.state&set != 0 }

// Step applies an event, changes the state, and returns the actions that the parent must perform, in order. If the
// event is impossible in the present state, Step changes nothing.
func (c *Child) Step(e Event) []Action {
	r := index[place(c.state)][place(e)]
	if r.next != stay {
		c.become(r.next)
	}
	return r.actions
}

// Cannot returns the reason why an event is impossible in the present state, or "" if it is possible.
func (c Child) Cannot(e Event) string {
	if r := index[place(c.state)][place(e)]; r.impossible() {
		return r.why
	}
	return ""
}

func (c *Child) become(s State) { c.state = s }

// place returns the index of the bit that is set in b. Exactly one bit must be set.
func place[B State | Event](b B) int { return bits.TrailingZeros32(uint32(b)) }
