// Package flow handles the orders for daemons at one agent. Daemons are programs that a caller, a client of the root,
// starts beside the ranks of a job (docs/dev/decisions/0028-daemons.md). An order goes down the tree. The output of the
// daemons and the reports of their ends go up, and input goes down. Credit limits the data in transit, and
// reports are merged on their way up. The daemons of an order can form a session, in which they communicate with each
// other and with the caller (docs/dev/decisions/0035-tools.md).
//
//	order --> open --all daemons have ended, all output is passed on--> ended, reported once
//	open --DaemonsEnd, or the caller has disconnected--> local daemons killed, output dropped --> ended
//	open --Close, the job ends--> local daemons killed --takeMost--> output dropped --dieMost--> daemons lost --> ended
//	open --the parent is lost--> as with DaemonsEnd, but without a report
package flow

import (
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Place contains the state of an agent that its Tools use.
type Place struct {
	Now     time.Duration                          // present time
	Host    string                                 // host of the agent
	Index   job.NodeIndex                          // index of the agent's node
	Running bool                                   // the launch is complete and the job is not ending
	Forked  bool                                   // the ranks of this node have been started
	Settled func(subtree.Link) bool                // reports whether a child can take orders
	HostOf  func(p job.Part, at int) (host string) // root: returns the host of the node at an offset in a part
}

// Tools holds the open orders of an agent.
type Tools struct {
	below   *subtree.Subtree
	at      Place             // argument of the newest call that has a parameter of type Place
	newest  uint32            // largest ID of an order that has been opened
	open    []*order          // orders that have not ended
	tickets map[uint32]uint32 // root: IDs of the callers' requests, keyed by order ID
	held    []frame.Message   // messages from the parent that wait until the ranks of this node have been started
	out     []subtree.Effect  // effects since the last call of done
}

// New returns the Tools of an agent, without orders. below is the agent's subtree.
func New(below *subtree.Subtree) Tools { return Tools{below: below, tickets: map[uint32]uint32{}} }

func (t *Tools) do(e subtree.Effect) { t.out = append(t.out, e) }

func (t *Tools) send(to subtree.Link, m frame.Message) { t.do(subtree.Send{To: to, Msg: m}) }

// done returns the effects since the last call of done. The slice is valid until the next call of do.
func (t *Tools) done() []subtree.Effect {
	out := t.out
	t.out = t.out[:0]
	return out
}

// Open returns the number of orders that have not ended in the subtree of this agent.
func (t *Tools) Open() int { return len(t.open) }

// Step applies an event of a caller, a daemon or a member.
func (t *Tools) Step(at Place, ev subtree.Event) []subtree.Effect {
	t.at = at
	switch ev := ev.(type) {
	case DaemonsAsked:
		t.askDaemons(ev)
	case SessionAsked:
		t.askSession(ev)
	case DaemonsTaken:
		t.granted(t.ofTicket(ev.ID), int(ev.N))
	case DaemonsLeft:
		t.end(t.ofTicket(ev.ID))
	case DaemonsKept:
		t.discard(t.ofTicket(ev.ID))
	case DaemonOutput:
		t.output(t.find(ev.ID), chunk{DaemonOutput: ev.DaemonOutput, from: subtree.Up})
	case DaemonExited:
		t.exited(t.find(ev.ID), ev)
	case DaemonFed:
		t.feed(t.ofTicket(ev.ID), ev.Stdin)
	case DaemonInputRead:
		t.inputRead(t.find(ev.ID), int(ev.N))
	case DaemonInputClosed:
		t.inputClosed(t.find(ev.ID))
	case SessionSent:
		t.toMember(t.ofTicket(ev.ID), ev.Data)
	case SessionTaken:
		t.toMember(t.ofTicket(ev.ID), rankwire.ToolRoom{N: ev.N})
	case MemberFrame:
		t.fromMember(t.find(ev.ID), ev.Member, ev.Msg)
	}
	return t.done()
}

// FromParent applies a message of the parent, which ParentLie has accepted. While the ranks of this node are being
// started, the message waits for Ready, because the environment of a daemon contains the process IDs of the ranks.
func (t *Tools) FromParent(at Place, m frame.Message) []subtree.Effect {
	t.at = at
	if len(t.held) > 0 || t.startsRanks() {
		t.held = append(t.held, m)
		return nil
	}
	t.obey(m)
	return t.done()
}

// obey applies a message of the parent at once.
func (t *Tools) obey(m frame.Message) {
	switch m := m.(type) {
	case wire.Daemons:
		t.order(m)
	case wire.Session:
		t.orderSession(m)
	case wire.SessionRelease:
		t.release(t.find(m.ID), m.Part)
	case wire.SessionPiece:
		t.toMember(t.find(m.ID), m.Data)
	case wire.SessionRoom:
		t.toMember(t.find(m.ID), rankwire.ToolRoom{N: m.N})
	case wire.DaemonGrant:
		t.granted(t.find(m.ID), int(m.N))
	case wire.DaemonsEnd:
		t.end(t.find(m.ID))
	case wire.DaemonInput:
		t.feed(t.find(m.ID), m.Stdin)
	}
}

// startsRanks reports whether the job runs, but the ranks of this node have not been started yet.
func (t *Tools) startsRanks() bool { return t.at.Running && t.below.Own.Count() > 0 && !t.at.Forked }

// Ready applies the waiting messages of the parent, unless the ranks of this node are still being started. The core
// calls it after each event while Waits returns true.
func (t *Tools) Ready(at Place) []subtree.Effect {
	t.at = at
	if t.startsRanks() {
		return nil
	}
	held := t.held
	t.held = nil
	for _, m := range held {
		if rule := t.ParentLie(m); rule != "" { // the nodes of the job may have changed since m arrived
			t.do(Violation{m, rule})
			break
		}
		t.obey(m)
	}
	return t.done()
}

// Waits reports whether messages of the parent wait for the start of this node's ranks.
func (t *Tools) Waits() bool { return len(t.held) > 0 }

// FromChild applies a message of child l, which ChildLie has accepted.
func (t *Tools) FromChild(l subtree.Link, m frame.Message) []subtree.Effect {
	switch m := m.(type) {
	case wire.DaemonOutput:
		t.output(t.find(m.ID), chunk{m, l})
	case wire.DaemonsEnded:
		t.endedBelow(t.find(m.ID), l, m.DaemonEnds)
	case wire.DaemonRoom:
		t.inputReadBelow(t.find(m.ID), l, int(m.N))
	case wire.SessionCollect:
		t.collectBelow(t.find(m.ID), l, m.Part)
	case wire.SessionPiece:
		t.fromMemberBelow(t.find(m.ID), m.Data)
	case wire.SessionRoom:
		t.fromMemberBelow(t.find(m.ID), rankwire.ToolRoom{N: m.N})
	}
	return t.done()
}

// ofTicket returns the open order for the caller's request with the ID ticket, or nil.
func (t *Tools) ofTicket(ticket uint32) *order {
	for _, o := range t.open {
		if t.tickets[o.id] == ticket {
			return o
		}
	}
	return nil
}

// find returns the open order with the given ID, or nil.
func (t *Tools) find(id uint32) *order {
	for _, o := range t.open {
		if o.id == id {
			return o
		}
	}
	return nil
}
