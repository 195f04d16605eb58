package job

import "time"

// Moment numbers what is timed of one node's launch.
type Moment uint8

// The moments, in the order in which they come. The parent records those up to
// LaunchSent, and ReadyReceived; the node itself records the others.
const (
	SessionStarted Moment = iota // the parent begins the session
	Connecting                   // to the node
	Authenticating               // the connection stands; versions, keys and the user are next
	Beginning                    // the remote shell is asked for, or the launcher's program runs
	Shipping                     // the node has no binary, and gets it
	AgentAnswered                // the agent's first line is here
	LaunchSent                   // Launch is sent
	LaunchReceived               // Launch is there
	ForkStarted                  // the node's ranks are being started
	RanksStarted                 // they run, or have failed
	ReadySent                    // the whole subtree is; Ready is sent
	ReadyReceived                // Ready is here
	Moments
)

// Never is the time of what has not happened, or was not seen.
const Never = time.Duration(-1)

// NodeTimes is when the launch of one node came how far, in the clock of
// whoever holds it, from when that agent got its own Launch.
type NodeTimes struct {
	Node   NodeIndex
	Parent NodeIndex // the node that has started it, plus one; 0: the root
	Local  bool      // without a remote shell
	At     [Moments]time.Duration
	CPU    time.Duration // of the launcher's process up to Spoke; 0: unknown
	Error  time.Duration // by which the node's own moments may be off
}

// NewNodeTimes is a node of which nothing has been seen.
func NewNodeTimes(node NodeIndex) NodeTimes {
	t := NodeTimes{Node: node}
	for m := range t.At {
		t.At[m] = Never
	}
	return t
}

// Mark notes that a moment has come. The first time counts.
func (t *NodeTimes) Mark(m Moment, at time.Duration) {
	if t.At[m] == Never {
		t.At[m] = at
	}
}

// Shift moves all moments into a clock that began so much earlier.
func (t *NodeTimes) Shift(by, err time.Duration) {
	for m, at := range t.At {
		if at != Never {
			t.At[m] = at + by
		}
	}
	t.Error += err
}
