// Package flow decides for one agent about data that goes through the tree under credit: the output and input of daemons
// that callers of the job have started beside its ranks (docs/dev/decisions/0028-daemons.md), and the messages of
// sessions. A session is formed by daemons of a tool that know each other (docs/dev/decisions/0035-tools.md). The package
// also decides which children an order goes to, and merges the ends of daemons on their way up. Tools keeps nothing when
// no order is open.
//
//	order --> open --own daemons, children and output at an end--> ended, once
//	open --DaemonsEnd, the caller is gone--> own daemons killed, output dropped --> ended
//	open --Close, the job ends--> own daemons killed --time is up--> output dropped, daemons lost --> ended
//	open --the parent is lost--> as with DaemonsEnd, and nothing is sent
package flow

import (
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Place is the state of an agent that matters for its tools.
type Place struct {
	Now     time.Duration
	Host    string
	Index   job.NodeIndex
	Running bool                                   // the job is neither launched nor ending
	Forked  bool                                   // the ranks of this node have been started
	Settled func(subtree.Link) bool                // reports whether a child can take orders
	HostOf  func(p job.Part, at int) (host string) // root: the host of a node of a part
}

// Tools are the orders of daemons that an agent has open.
type Tools struct {
	below   *subtree.Subtree
	at      Place // at the event that is handled
	newest  uint32
	open    []*order          // a few
	tickets map[uint32]uint32 // root: by the number of an order, the one that the driver has given to it
	held    []frame.Message   // of the parent, which wait until the ranks of this node run
	out     []subtree.Effect
}

// New makes the tools of an agent with a subtree.
func New(below *subtree.Subtree) Tools { return Tools{below: below, tickets: map[uint32]uint32{}} }

func (t *Tools) do(e subtree.Effect) { t.out = append(t.out, e) }

func (t *Tools) send(to subtree.Link, m frame.Message) { t.do(subtree.Send{To: to, Msg: m}) }

// done returns what was done since the last event.
func (t *Tools) done() []subtree.Effect {
	out := t.out
	t.out = t.out[:0]
	return out
}

// Open returns the number of orders that have not ended.
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

// FromParent applies a message of the parent. An agent whose ranks are being started keeps it until Ready, because a
// daemon is told the processes of the ranks.
func (t *Tools) FromParent(at Place, m frame.Message) []subtree.Effect {
	t.at = at
	if len(t.held) > 0 || t.startsRanks() {
		t.held = append(t.held, m)
		return nil
	}
	t.obey(m)
	return t.done()
}

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

// startsRanks reports whether the ranks of this node do not run yet.
func (t *Tools) startsRanks() bool { return t.at.Running && t.below.Own.Count() > 0 && !t.at.Forked }

// Ready applies the messages that have waited for the ranks of this node. The core calls it after each event.
func (t *Tools) Ready(at Place) []subtree.Effect {
	t.at = at
	if t.startsRanks() {
		return nil
	}
	held := t.held
	t.held = nil
	for _, m := range held {
		if rule := t.ParentLie(m); rule != "" { // the job has other nodes now, as agents below know
			t.do(Violation{m, rule})
			break
		}
		t.obey(m)
	}
	return t.done()
}

// Waits reports whether messages of the parent wait for the ranks of this node.
func (t *Tools) Waits() bool { return len(t.held) > 0 }

// FromChild applies a message of a child.
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

// ofTicket returns the order with a number of the driver's, or nil if it is over.
func (t *Tools) ofTicket(ticket uint32) *order {
	for _, o := range t.open {
		if t.tickets[o.id] == ticket {
			return o
		}
	}
	return nil
}

func (t *Tools) find(id uint32) *order {
	for _, o := range t.open {
		if o.id == id {
			return o
		}
	}
	return nil
}
