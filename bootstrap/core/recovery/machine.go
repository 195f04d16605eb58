// Package recovery contains the state machine by which an agent handles the loss of ranks, nodes and agents. A Machine
// receives events and returns effects, which the core performs. It performs no I/O and reads no clock. A Policy
// determines what the job does about a loss.
//
// A restart of ranks has these steps (docs/dev/decisions/0020-restart.md). The Director of the root controls them,
// because only the root learns of all failures. A program of a rank has an epoch, which each restart increases. A
// floor announces the oldest valid epoch of some ranks. Messages of programs with older epochs are ignored. A restart
// of all ranks begins with a Recall, which ends all of them.
//
//	root:   running --Failure--> fencing --Recalled, Fenced--> announcing --FloorSet--> starting --Respawned--> running
//	agent:  running --RankFailed--> failed --RankFenced, RankDrained, Respawn--> Refork --> running
//	        running --Recall--> stopping --> emptying --NodeEmptied--> empty --> recalled --Respawn--> running
//
// An agent of a job that restarts ranks does not end when all ranks of its subtree have ended. It sends Rest, and waits
// until the root ends the job or restarts ranks.
//
// If the job repairs its tree, an agent retains messages that it has sent to its parent or received from its parent. If
// a link is lost, they are sent again over the link that replaces it. Each message has an identity, by which the
// receiver recognizes a repetition (docs/dev/decisions/0021-tree-repair.md):
//
//	sent to the parent --retained--> the root has handled it: released
//	                                 link lost --new link--> sent again; the root handles each identity once
//	received from the parent --retained--> a new child reports what it has received --> the child gets the rest
package recovery

import (
	"fmt"
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Response is the reaction of a job to the loss of a rank or an agent.
type Response uint8

const (
	End        Response = iota // the job ends
	Continue                   // the job continues without the lost ranks
	Restart                    // the lost ranks are restarted
	RestartAll                 // all ranks of the job are restarted
)

// Policy contains the response to each kind of loss.
type Policy struct {
	Rank  Response // response to the failure of a rank
	Agent Response // response to the loss of an agent: End, or Continue after its parent has adopted its children
}

// PolicyOf returns the policy of a job with the given options.
func PolicyOf(o *job.LaunchOptions) (p Policy) {
	switch {
	case o.RestartAll && o.Restarts:
		p.Rank = RestartAll
	case o.Restarts:
		p.Rank = Restart
	case o.KeepGoing:
		p.Rank = Continue
	}
	if o.Repair {
		p.Agent = Continue
	}
	return p
}

// Restarts reports whether failed ranks are restarted, alone or together with all other ranks.
func (p Policy) Restarts() bool { return p.Rank >= Restart }

// FencePatience is the maximum time to wait until the old processes of ranks have died of SIGKILL, before the ranks are
// restarted.
const FencePatience = 2 * time.Second

// period is a phase of the job, as seen by one agent.
type period uint8

const (
	unopened  period = iota // before Open
	launching               // until Launched
	alive                   // until Ended, or until this machine, at the root, ends the job
	ending
)

// Machine is the state machine of one agent. It maintains these invariants:
//
//  1. Until the job ends, node.failed is the number of ranks of this node that have failed and were not started again.
//  2. From the arrival of a Recall until the Respawn of all ranks, all ranks of this node count as failed, or none was
//     ever started. This holds until the job ends.
//  3. The newest floor that the subtree has confirmed is not newer than the newest floor that has arrived.
//  4. Only the Director of the root has restarts under way.
type Machine struct {
	below  *subtree.Subtree
	policy Policy
	period period
	now    time.Duration
	out    []Effect
	floors Floors
	node   node
	losses losses
	root   root
}

// New returns the machine of an agent with the given subtree.
func New(below *subtree.Subtree) Machine {
	return Machine{below: below, floors: NewFloors(below), node: node{rested: -1}}
}

// Step handles an event at the time now and returns the resulting effects. now is the time since a fixed instant, which
// is the same for all calls. An effect may cause further events. The core passes them to Step while it performs the
// effect.
func (m *Machine) Step(now time.Duration, ev Event) []Effect {
	m.now = now
	switch ev := ev.(type) {
	case Open:
		m.open(ev)
	case Launched:
		m.becomeAlive()
	case Ended:
		m.becomeEnding()
	case Order:
		m.order(ev.Msg)
	case Answer:
		m.answer(ev.From, ev.Msg)
	case RanksLost:
		m.losses.add(ev.Ranks)
	case Failure, NodeLost, EndedBy, Sweeping, NodeSwept, ChildrenSilent, PMIUsed, Abort:
		m.rootEvent(ev)
	case Quiet:
		m.rest()
	case Exiting:
		m.sendLosses()
	case Tick:
		m.due()
	case Settle:
		m.settle()
	default:
		m.nodeEvent(ev)
	}
	out := m.out
	m.out = nil // the core may call Step again before it has performed all effects of out
	return out
}

func (m *Machine) do(e Effect) { m.out = append(m.out, e) }

func (m *Machine) send(to subtree.Link, msg frame.Message) { m.do(Send{to, msg}) }

func (m *Machine) open(ev Open) {
	m.policy, m.period = PolicyOf(&ev.Job.Launch), launching
	if m.below.Root {
		m.openRoot(ev)
	}
}

// due handles the deadlines of the root that have passed.
func (m *Machine) due() {
	if m.period == alive {
		m.fencesDue()
	}
	m.abortDue()
}

func (m *Machine) becomeAlive() {
	m.period = alive
	if m.below.Root {
		m.decide(m.root.director.Opened())
	}
}

func (m *Machine) becomeEnding() { m.period, m.node.failed = ending, 0 }

// order handles a message from the parent.
func (m *Machine) order(msg frame.Message) {
	switch msg := msg.(type) {
	case wire.Floor:
		m.raise(msg)
	case wire.Respawn:
		m.respawn(msg)
	case wire.Recall:
		m.recall(msg)
	case wire.Standing:
		m.takeOver(msg)
	case rankwire.Failures:
		m.learn(msg.Ranks)
	}
}

// answer handles a message from a child.
func (m *Machine) answer(from subtree.Link, msg frame.Message) {
	switch msg := msg.(type) {
	case wire.FloorSet:
		m.floors.Confirm(from, msg.Serial)
	case wire.Recalled:
		m.childRecalled(from, msg)
	case wire.Respawned:
		m.respawned(msg)
	case wire.Replaced:
		if m.below.Root {
			m.placed(msg)
		} else {
			m.send(subtree.Up, msg)
		}
	case rankwire.Failures:
		m.losses.fresh.Add(msg.Ranks)
	}
}

// settle performs the steps that recent events on this agent have made possible.
func (m *Machine) settle() {
	m.spreadLosses()
	m.continueRecall()
	m.continueRestarts()
}

// Recalling reports whether a Recall is ending the ranks of this node, which will be restarted.
func (m *Machine) Recalling() bool {
	return m.period != ending && m.node.stage > nodeRuns && m.node.stage < nodeEmpty
}

// RecallOpen returns the newest Recall, with the remaining grace. open reports whether a Recall has arrived and
// the ranks have not been ordered to start again since.
func (m *Machine) RecallOpen() (r wire.Recall, open bool) {
	n := &m.node
	return wire.Recall{Serial: n.recall, GraceMs: ms(max(n.killAt-m.now, 0))}, n.stage != nodeRuns
}

// Restarting reports whether ranks of this node have failed and will be restarted, but were not started again yet.
func (m *Machine) Restarting() bool { return m.node.failed > 0 }

// StartsNode reports whether one Respawn has ordered all ranks of this node to start, and some of them do not run yet.
func (m *Machine) StartsNode() bool { return m.node.starting > 0 && m.period != ending }

// Relaunches reports whether the job repairs its tree and restarts failed ranks alone. It then also restarts the ranks
// of lost nodes.
func (m *Machine) Relaunches() bool { return m.policy.Agent == Continue && m.policy.Rank == Restart }

// RestartsAll reports whether a restart of all ranks is under way. It is used at the root only.
func (m *Machine) RestartsAll() bool { return m.root.director.RollsBack() }

// HoldsAbort reports whether the machine decides whether an abort by a rank ends the job. If so, the core passes an
// Abort to the machine and does not end the job itself. It is used at the root only.
func (m *Machine) HoldsAbort() bool { return m.policy.Rank == RestartAll && m.period != ending }

// MayRestart reports whether a failed rank of this node can be restarted. pmi says whether the rank uses PMI.
func (m *Machine) MayRestart(pmi bool) bool {
	return m.policy.Restarts() && (!pmi || m.policy.Rank == RestartAll) && m.period != ending
}

// Floor returns the serial number of the newest floor that has arrived, or 0.
func (m *Machine) Floor() uint32 { return m.floors.Taken() }

// FloorConfirmed returns the serial number of the newest floor that this subtree has confirmed, or 0.
func (m *Machine) FloorConfirmed() uint32 { return m.floors.Confirmed() }

// HasFloor reports whether the subtree of a child has confirmed the newest floor that has arrived at this agent.
func (m *Machine) HasFloor(child subtree.Link) bool { return m.floors.Has(child) }

// Standing returns the message with the present state of the job for an agent that replaces a lost one. It fills in the
// floors, and the serial numbers of the newest floor and the newest Recall. The caller fills in the other fields.
func (m *Machine) Standing() wire.Standing {
	return wire.Standing{
		Serial: m.floors.Taken(), Recall: m.node.recall, Everyone: m.below.Floors.OfAll(), Floors: m.RankFloors(),
	}
}

// RankFloors returns the ranks whose floor is higher than the floor of all ranks, in ascending order.
func (m *Machine) RankFloors() (floors []wire.RankFloor) {
	for rank, epoch := range m.below.Floors.All() {
		floors = append(floors, wire.RankFloor{Rank: rank, Epoch: epoch})
	}
	return floors
}

// Check panics if an invariant of Machine does not hold.
func (m *Machine) Check() {
	must := func(holds bool, number int) {
		if !holds {
			panic(fmt.Sprintf("recovery: invariant %d", number))
		}
	}
	failed := uint32(0)
	for i := range m.node.starts {
		if m.node.starts[i].lacks != 0 {
			failed++
		}
	}
	must(m.period == ending || failed == m.node.failed, 1)
	must(m.period == ending || m.node.stage == nodeRuns || int(failed) == len(m.node.starts), 2)
	must(m.floors.Confirmed() <= m.floors.Taken(), 3)
	must(m.below.Root || m.root.director.Idle(), 4)
}

// ms returns d in milliseconds, but at most 2^31. The type uint32 is that of the fields of messages.
func ms(d time.Duration) uint32 { return uint32(min(d.Milliseconds(), 1<<31)) }
