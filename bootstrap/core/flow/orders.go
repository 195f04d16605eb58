package flow

import (
	"slices"
	"strings"
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// childCredit is the maximum number of bytes of output of one order in transit from a child to its parent. callerCredit
// is the maximum in transit from the root to the caller.
const (
	childCredit  = 64 << 10
	callerCredit = 256 << 10
)

// maxOpen is the maximum number of open orders of a job. The root refuses further requests.
const maxOpen = 8

// When the job ends, an agent kills its daemons. It still passes on their output for the time takeMost, and drops
// output that comes later. Daemons that have not died after the time dieMost count as lost.
const (
	takeMost = time.Second
	dieMost  = 4 * time.Second
)

// chunk is output of a daemon. from is the child that has sent it to this agent, or Up if the daemon runs on this node.
type chunk struct {
	wire.DaemonOutput
	from subtree.Link
}

// receiver is a child that has received an order and has not reported the end of its daemons.
type receiver struct {
	to           subtree.Link
	most         uint32 // number of nodes of the order in the child's subtree
	credit, owed int    // bytes of output that the child may still send; bytes passed on, but not granted again yet
}

// order is the state, at this agent, of an order for daemons. The order is open until the daemons in the subtree of
// this agent have ended and their output has been passed on or dropped.
type order struct {
	id       uint32
	credit   int      // bytes of output that this agent may still send to its parent, or to the caller at the root
	own      []uint32 // numbers of daemons of this node that have not ended
	host     string   // host of this agent
	children []receiver
	queue    []chunk // output that waits for credit, oldest first
	input    input
	sum      sum
	session  *session // state of the session that the daemons form, or nil if they form none

	// closed means that the daemons of this node were killed. discards means that output is dropped. mute means that no
	// report is sent, because the parent was lost.
	closed, discards, mute bool
	takeBy, dieBy          time.Duration // times at which takeMost and dieMost end; 0 before Close
}

func (o *order) child(l subtree.Link) int {
	return slices.IndexFunc(o.children, func(c receiver) bool { return c.to == l })
}

// meant returns the number of nodes of p that are in asked. An empty asked stands for all nodes.
func meant(asked wire.NodeSpans, p job.Part) (count uint32) {
	if asked.Len() == 0 {
		return uint32(p.Nodes.Len())
	}
	for s := range asked.All() {
		if lo, hi := max(s.First, p.First), min(s.End(), p.End()); lo < hi {
			count += uint32(hi - lo)
		}
	}
	return count
}

// order passes the order m on to the children and starts the daemons of this node.
func (t *Tools) order(m wire.Daemons) {
	below := m
	below.Credit = childCredit
	o := t.pass(m, below)
	own, start := t.ownDaemons(m)
	t.begin(o, own, start)
	o.input.reads = m.Input != wire.ReadsNothing
}

// pass returns a new order for m. It sends the message below to each child that can take orders and whose subtree has
// nodes of m. It counts the nodes of other children in Over if their ranks have ended or the job is ending, and in Lost
// otherwise.
func (t *Tools) pass(m wire.Daemons, below frame.Message) *order {
	t.newest = max(t.newest, m.ID)
	o := &order{id: m.ID, credit: int(m.Credit), host: t.at.Host}
	for l := range subtree.Link(t.below.Children()) {
		most := uint32(0)
		for _, p := range t.below.Parts(l) {
			most += meant(m.Nodes, p)
		}
		switch {
		case most == 0:
		case t.below.Exited(l) || !t.at.Running:
			o.sum.ends.Over += most
		case !t.at.Settled(l):
			o.sum.lose(most)
		default:
			o.children = append(o.children, receiver{to: l, most: most, credit: childCredit})
			t.send(l, below)
		}
	}
	return o
}

// begin adds o to the open orders and starts the daemons of o on this node. own contains the numbers of these
// daemons, and start is the effect from ownDaemons. If the order includes this node, but no suitable rank runs here,
// begin starts no daemon and counts the node in Over.
func (t *Tools) begin(o *order, own []uint32, start StartDaemons) {
	if len(own) == 0 && start.Place > 0 {
		o.sum.ends.Over++
	}
	if start.Place--; len(own) > 0 {
		t.do(start)
	}
	o.own, o.sum.ends.Daemons = own, uint32(len(own))
	t.open = append(t.open, o)
	t.advance(o)
}

// ownDaemons returns the numbers of the daemons of this node for order m, and the effect that starts them. start.Place
// is 0 if the order does not include this node. Otherwise it is 1 too large, and begin subtracts 1.
func (t *Tools) ownDaemons(m wire.Daemons) (own []uint32, start StartDaemons) {
	index := t.at.Index
	if t.below.Own.Count() == 0 || t.below.Own.Left() { // after this node has left the job, another may have its index
		return nil, start
	}
	place, isMeant := uint32(0), m.Nodes.Len() == 0
	if isMeant {
		place = uint32(index)
	}
	for s := range m.Nodes.All() {
		if index >= s.End() {
			place += s.Count
		} else if index >= s.First {
			place, isMeant = place+uint32(index-s.First), true
		}
	}
	if !isMeant {
		return nil, start
	}
	start = StartDaemons{ID: m.ID, PerRank: m.PerRank, Number: uint32(index), Place: place + 1, Input: m.Input,
		Window: m.Window}
	if !t.at.Running || !t.at.Forked {
		return nil, start
	}
	start.Argv = stringsOf(m.Argv)
	for rank, p := range t.below.Own.All() {
		if !p.Exited() && (m.Input == wire.ReadsNothing || rank == m.OfRank) {
			start.Ranks = append(start.Ranks, rank)
			if m.PerRank {
				own = append(own, uint32(rank))
			}
		}
	}
	if !m.PerRank && len(start.Ranks) > 0 {
		own = []uint32{uint32(index)}
	}
	return own, start
}

// stringsOf returns copies of the strings in list. They do not share memory with the message that contains list.
func stringsOf(list rankwire.Strings) (all []string) {
	for s := range list.All() {
		all = append(all, strings.Clone(s))
	}
	return all
}

// output queues the chunk c for the parent or the caller. It does nothing if o has ended and is nil.
func (t *Tools) output(o *order, c chunk) {
	if o == nil {
		return
	}
	if c.from != subtree.Up {
		i := o.child(c.from)
		if i < 0 {
			return
		}
		o.children[i].credit -= len(c.Data)
	}
	o.queue = append(o.queue, c)
	t.advance(o)
}

// exited records the end of a daemon of this node. All output of the daemon has arrived before.
func (t *Tools) exited(o *order, ev DaemonExited) {
	if o == nil {
		return
	}
	t.memberExited(o, job.Slot(ev.Number))
	if i := slices.Index(o.own, ev.Number); i >= 0 {
		o.own = slices.Delete(o.own, i, i+1)
		o.sum.add(ev.Number, o.host, ev.Status, ev.Cause)
		t.advance(o)
	}
}

// endedBelow records that all daemons in the subtree of child l have ended, as described by e.
func (t *Tools) endedBelow(o *order, l subtree.Link, e rankwire.DaemonEnds) {
	if o == nil {
		return
	}
	t.membersEnded(o, l, true)
	if i := o.child(l); i >= 0 {
		o.children = slices.Delete(o.children, i, i+1)
		o.sum.merge(e)
		t.advance(o)
	}
}

// ChildEnded stops waiting for the reports of child l, because its link has been closed or lost. If exited is true, the
// child had reported the ends of all its ranks, and the nodes of its subtree count as Over. Otherwise they count as
// Lost.
func (t *Tools) ChildEnded(l subtree.Link, exited bool) []subtree.Effect {
	for _, o := range t.open {
		t.membersEnded(o, l, false)
	}
	for _, o := range slices.Clone(t.open) {
		if i := o.child(l); i >= 0 {
			if most := o.children[i].most; exited {
				o.sum.ends.Over += most
			} else {
				o.sum.lose(most)
			}
			o.children = slices.Delete(o.children, i, i+1)
			t.advance(o)
		}
	}
	return t.done()
}

// granted handles credit for n more bytes of output, from the parent or the caller.
func (t *Tools) granted(o *order, n int) {
	if o != nil {
		o.credit += n
		t.advance(o)
	}
}

// discard drops the queued and later output of an order. Its daemons continue.
func (t *Tools) discard(o *order) {
	if o != nil {
		o.discards = true
		t.advance(o)
	}
}

// end kills the daemons of an order in the subtree of this agent, and drops their output. A second call has no effect.
func (t *Tools) end(o *order) {
	if o == nil {
		return
	}
	if !o.discards || !o.closed {
		t.kill(o)
		for _, c := range o.children {
			t.send(c.to, wire.DaemonsEnd{ID: o.id})
		}
	}
	t.discard(o)
}

// ParentLost ends all orders without a report, because the agents above have counted their daemons as lost. It drops
// the messages of the lost parent that wait for Ready, because a new parent does not know of their orders.
func (t *Tools) ParentLost() []subtree.Effect {
	t.held = nil
	for _, o := range slices.Clone(t.open) {
		o.mute = true
		t.end(o)
	}
	return t.done()
}

// Close kills the daemons of this node, because the job ends. Output is still passed on for the time takeMost. Later
// calls kill nothing again, and handle the deadlines as Due does.
func (t *Tools) Close(at Place) []subtree.Effect {
	t.at = at
	for _, o := range slices.Clone(t.open) {
		if o.dieBy == 0 {
			o.takeBy, o.dieBy = at.Now+takeMost, at.Now+dieMost
			t.kill(o)
		}
		t.due(at.Now, o)
	}
	return t.done()
}

// kill kills the daemons of o on this node, unless this was done before.
func (t *Tools) kill(o *order) {
	if !o.closed && len(o.own) > 0 {
		t.do(KillDaemons{o.id})
	}
	o.closed = true
}

// Due handles the deadlines that Close has set, if they have expired at the time now.
func (t *Tools) Due(now time.Duration) []subtree.Effect {
	for _, o := range slices.Clone(t.open) {
		if o.dieBy > 0 {
			t.due(now, o)
		}
	}
	return t.done()
}

func (t *Tools) due(now time.Duration, o *order) {
	if now < o.takeBy {
		t.do(subtree.Wake{At: o.takeBy})
		return
	}
	o.discards = true
	if now < o.dieBy {
		t.do(subtree.Wake{At: o.dieBy})
	} else {
		for _, number := range o.own {
			o.sum.add(number, o.host, job.Status{Kind: job.Lost}, "it has not died of SIGKILL")
		}
		o.own = nil
	}
	t.advance(o)
}

// advance passes on as much output as the credit allows. If all output has been passed on, and all daemons of this node
// and of the children have ended, it ends the order and reports this to the parent or the caller.
func (t *Tools) advance(o *order) {
	for len(o.queue) > 0 {
		c := o.queue[0]
		if !o.discards && o.credit < len(c.Data) {
			return
		}
		o.queue[0] = chunk{}
		o.queue = o.queue[1:]
		if o.discards {
			o.sum.ends.Dropped = job.Added(o.sum.ends.Dropped, uint64(len(c.Data)))
		} else {
			o.credit -= len(c.Data)
			if c.ID = o.id; t.below.Root {
				c.ID = t.tickets[o.id]
				t.do(DaemonsPrinted{c.DaemonOutput})
			} else {
				t.send(subtree.Up, c.DaemonOutput)
			}
		}
		t.giveBack(o, c)
	}
	if len(o.own) > 0 || len(o.children) > 0 {
		return
	}
	t.open = slices.DeleteFunc(t.open, func(other *order) bool { return other == o })
	switch ends := o.sum.packed(); {
	case o.mute:
	case t.below.Root:
		t.do(DaemonsOver{DaemonsEnded: wire.DaemonsEnded{ID: t.tickets[o.id], DaemonEnds: ends}})
		delete(t.tickets, o.id)
	default:
		t.send(subtree.Up, wire.DaemonsEnded{ID: o.id, DaemonEnds: ends})
	}
}

// giveBack lets the source of c send more output, because c has been passed on or dropped. If c is from a daemon of
// this node, giveBack resumes the reader of its stream. If c is from a child, giveBack grants the child new credit when
// a quarter of childCredit has accumulated.
func (t *Tools) giveBack(o *order, c chunk) {
	if c.from == subtree.Up {
		t.do(ResumeDaemon{o.id, c.Number, c.Stream})
		return
	}
	i := o.child(c.from)
	if i < 0 {
		return
	}
	k := &o.children[i]
	if k.owed += len(c.Data); k.owed >= childCredit/4 {
		t.send(c.from, wire.DaemonGrant{ID: o.id, N: uint32(k.owed)})
		k.credit, k.owed = k.credit+k.owed, 0
	}
}
