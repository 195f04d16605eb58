// Package child decides what an agent does about one of its children. The state of a child says which session or link
// there is, how far its agent has come, and what becomes of its place when it is lost. A table has the next state and
// the actions for each state and event. A Child does nothing itself: its parent passes in events and performs the
// actions.
package child

import "math/bits"

// State is the state of a child. It is one bit, so that several states can be combined into a set.
type State uint32

// The states. docs/dev/children.md lists how they follow each other.
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
	Opening   = Starting | GrowStarting | SuccessorStarting       // its session takes a slot of the window
	Launching = Up | GrowUp | SuccessorUp                         // Ready has not come
	Settled   = Ready | Counted | GrowReady | Successor | Adopted // Ready has come, or State of an adopted one
	Heard     = Launching | Settled | Resumed                     // its frames are applied
	Linked    = Heard | Reported                                  // it has a link
	Coming    = GrowWaiting | GrowStarting | GrowUp | GrowReady   // its nodes are not of the job yet
	Replacing = SuccessorStarting | SuccessorUp                   // its nodes are still those of the lost child
	Relinking = Rejoining | Joining                               // it is an agent of the job that gets a new link
	HasExited = Reported | Exited
	Ended     = HasExited | Gone

	waits    = Waiting | GrowWaiting
	unlinked = waits | Opening | Relinking
	member   = Ready | Counted | Successor | Adopted // settled, and its nodes are of the job
	over     = Exited | Gone
)

// Event is something that happens to a child, as the core classifies it. It is one bit, like a State, so that several
// events can be combined into a set.
type Event uint32

// The events.
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
//  1. A child takes a slot of the window from OpenSession to FreeSlot, which is as long as it is Opening.
//  2. It is removed once: when it becomes Ended, by Remove, LeavePlace, Rejoin or AdoptBelow.
//  3. By then one action says what became of its ranks: AddEnds, AddNotRun, AddLost, YieldNodes, Rejoin or AdoptBelow.
//  4. A link or session that has not ended is closed when the child becomes Gone.
//  5. A child that is Ended stays Ended, and End or GiveUp ends any other one.
type Child struct{ state State }

// New returns a child in its first state: Waiting, GrowWaiting, SuccessorStarting, Rejoining, Joining or Lost.
func New(first State) (c Child) {
	c.become(first)
	return c
}

// In reports whether the child is in one of the states of a set.
func (c Child) In(set State) bool { return c.state&set != 0 }

// Step applies an event, changes the state, and returns the actions that the parent performs then, in order. An
// impossible event changes nothing.
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

// place returns the index of the only bit that is set in b.
func place[B State | Event](b B) int { return bits.TrailingZeros32(uint32(b)) }
