package tree

import (
	"slices"
	"time"

	"ibrun/internal/job"
)

// Launch is one launch, as its root has seen it.
type Launch struct {
	Root     string // host of the root
	Launcher string // by which sessions were made
	Agents   int    // that the job needs, besides the root
	Ranks    int
	Missing  int    // nodes that are not in Nodes, because they are too many
	Shape    Shape  // shape of the tree, and the costs from which it was planned
	Source   string // where those costs are from, in words
	Nodes    []Node // parents before their children
}

// Node is the launch of one node, in the root's clock.
type Node struct {
	Host string
	job.NodeTimes
}

// Phase is a part of a node's launch.
type Phase uint8

// The phases, in order. Where a launcher does not tell them apart, what is not
// told is in the phase before.
const (
	Connect      Phase = iota // name, address, connection
	Authenticate              // versions, keys, user
	Begin                     // remote shell, agent's start
	Ship                      // the binary goes there
	Order                     // Launch goes there
	Spawn                     // the node's ranks
	Below                     // waiting for the nodes that this one starts
	Phases
)

var phaseNames = [Phases]string{"connect", "authenticate", "start", "ship", "order", "spawn", "wait"}

func (p Phase) String() string { return phaseNames[p] }

// Span is one phase of one node.
type Span struct {
	Phase    Phase
	From, To time.Duration // since the root began
}

// spanMoments lists the moments that separate the phases of a node's launch. The moment with the index i
// begins Phase(i). The phase ends at the next moment of the list that is known. The last moment only ends
// a phase.
var spanMoments = []job.Moment{job.SessionStarted, job.Authenticating, job.Beginning, job.Shipping, job.AgentAnswered,
	job.ForkStarted, job.RanksStarted, job.ReadySent}

// Spans returns the phases that a node has completed, in order.
func (n *Node) Spans() (spans []Span) {
	last := -1 // the index of the last moment that is known
	for i, m := range spanMoments {
		if n.At[m] == job.Never {
			continue
		}
		if last >= 0 {
			from := n.At[spanMoments[last]]
			spans = append(spans, Span{Phase(last), from, max(from, n.At[m])})
		}
		last = i
	}
	return spans
}

// Up is when a node could start others: it had its Launch, or that was sent, or
// job.Never.
func (n *Node) Up() time.Duration {
	if n.At[job.LaunchReceived] != job.Never {
		return n.At[job.LaunchReceived]
	}
	return n.At[job.LaunchSent]
}

// LastUp returns when the last agent was up, and the number of agents that were up.
func (l *Launch) LastUp() (last time.Duration, agents int) {
	ups := l.Ups()
	return quantile(ups, 1), len(ups)
}

// End is the last moment of all.
func (l *Launch) End() (end time.Duration) {
	for i := range l.Nodes {
		end = max(end, slices.Max(l.Nodes[i].At[:]))
	}
	return end
}

// children are the indices in Nodes of what each parent has started, in the
// order in which it began. The key is that of NodeTimes.Parent.
func (l *Launch) children() map[job.NodeIndex][]int {
	children := map[job.NodeIndex][]int{}
	for i := range l.Nodes {
		if l.Nodes[i].At[job.SessionStarted] != job.Never {
			children[l.Nodes[i].Parent] = append(children[l.Nodes[i].Parent], i)
		}
	}
	for _, list := range children {
		slices.SortStableFunc(list, func(a, b int) int {
			return int(l.Nodes[a].At[job.SessionStarted] - l.Nodes[b].At[job.SessionStarted])
		})
	}
	return children
}

// Ups are the times at which agents were up, in rising order.
func (l *Launch) Ups() (at []time.Duration) {
	for i := range l.Nodes {
		if up := l.Nodes[i].Up(); up != job.Never {
			at = append(at, up)
		}
	}
	slices.Sort(at)
	return at
}
