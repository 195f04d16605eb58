// Package daemons decides for one agent what becomes of the daemons that callers of the job have
// started beside its ranks: how output goes up under credit, and how ends are merged on their way
// up. It does not know which nodes an order means, and starts nothing: the core and the driver do.
// It keeps nothing when no order is open.
//
//	Order --> open --own daemons, children and output at an end--> ended, once
//	open --End, the caller is gone--> own daemons killed, output dropped --> ended
//	open --Close, the job ends--> own daemons killed --time is up--> output dropped, daemons lost --> ended
//	open --the parent is lost--> as with End, and nothing is sent
package daemons

import (
	"slices"
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Do is what an effect asks for.
type Do uint8

const (
	Pass   Do = iota // put Chunk on the link up; at the root, give it to the caller
	Grant            // let the child To send N more bytes
	Resume           // let the reader of Number and Stream, of this node, go on
	Kill             // kill the daemons of this node
	End              // tell the child To to end
	Ended            // put Ends on the link up; at the root, give them to the caller
	Feed             // give Input to the daemon of this node
	Down             // put Input on the link To
	Room             // let the caller send N more bytes of input: by the link up, if there is one
	Wake             // call Due at the time At
)

// Effect is something that the core must do.
type Effect struct {
	Do    Do
	ID    uint32
	To    subtree.Link
	N     int
	Chunk Chunk
	Ends  rankwire.DaemonEnds
	Input Input
	At    time.Duration
}

// Chunk is output of a daemon.
type Chunk struct {
	Number uint32
	Stream uint8
	Data   []byte
	from   subtree.Link // Up: this node's own
}

// Credit, in bytes: what a child may have on the way, and the caller at the root.
const (
	ChildCredit  = 64 << 10
	CallerCredit = 256 << 10
)

// MaxOpen is how many orders may be open at a time.
const MaxOpen = 8

// How long the end of an agent waits for output to be taken, and for daemons to die.
const (
	takeMost = time.Second
	dieMost  = 4 * time.Second
)

// Child is one that an order goes to.
type Child struct {
	To   subtree.Link
	Most uint32 // nodes that it may speak for
}

type child struct {
	Child
	credit, owed int
}

// Daemons are the orders that an agent has open.
type Daemons struct {
	newest uint32
	open   []*order // a few
	out    []Effect
}

type order struct {
	id       uint32
	credit   int
	own      []uint32 // numbers of daemons of this node that have not ended
	host     string
	children []child // that have not ended
	queue    []Chunk
	input    input
	sum      sum

	closed, discards, mute bool
	takeBy, dieBy          time.Duration // 0: not closed
}

func (d *Daemons) do(e Effect) { d.out = append(d.out, e) }

func (d *Daemons) done() []Effect {
	out := d.out
	d.out = d.out[:0]
	return out
}

// Next is a number that no order has had; the root's.
func (d *Daemons) Next() uint32 { return d.newest + 1 }

// Open is how many orders have not ended.
func (d *Daemons) Open() int { return len(d.open) }

// Order opens an order, with what of its nodes is over or lost already. Numbers rise.
func (d *Daemons) Order(id, credit uint32, host string, own []uint32, to []Child, over, lost uint32) []Effect {
	d.newest = max(d.newest, id)
	o := &order{id: id, credit: int(credit), host: host, own: own}
	o.sum.ends = rankwire.DaemonEnds{Daemons: uint32(len(own)), Over: over}
	o.sum.lose(lost)
	for _, c := range to {
		o.children = append(o.children, child{Child: c, credit: ChildCredit})
	}
	d.open = append(d.open, o)
	d.advance(o)
	return d.done()
}

func (d *Daemons) find(id uint32) *order {
	for _, o := range d.open {
		if o.id == id {
			return o
		}
	}
	return nil
}

// Has reports whether an order is open.
func (d *Daemons) Has(id uint32) bool { return d.find(id) != nil }

func (o *order) child(l subtree.Link) int {
	return slices.IndexFunc(o.children, func(c child) bool { return c.To == l })
}

// Output takes what a daemon of this node has written.
func (d *Daemons) Output(id uint32, c Chunk) []Effect {
	if o := d.find(id); o != nil {
		c.from = subtree.Up
		o.queue = append(o.queue, c)
		d.advance(o)
	}
	return d.done()
}

// OutputBelow takes what has come from a child.
func (d *Daemons) OutputBelow(l subtree.Link, id uint32, c Chunk) []Effect {
	if o := d.find(id); o != nil {
		if i := o.child(l); i >= 0 {
			o.children[i].credit -= len(c.Data)
			c.from = l
			o.queue = append(o.queue, c)
			d.advance(o)
		}
	}
	return d.done()
}

// Exited takes the end of a daemon of this node, of which no output follows.
func (d *Daemons) Exited(id, number uint32, s job.Status, cause string) []Effect {
	if o := d.find(id); o != nil {
		if i := slices.Index(o.own, number); i >= 0 {
			o.own = slices.Delete(o.own, i, i+1)
			o.sum.add(number, o.host, s, cause)
			d.advance(o)
		}
	}
	return d.done()
}

// EndedBelow takes the ends of a child's subtree.
func (d *Daemons) EndedBelow(l subtree.Link, id uint32, e rankwire.DaemonEnds) []Effect {
	if o := d.find(id); o != nil {
		if i := o.child(l); i >= 0 {
			o.children = slices.Delete(o.children, i, i+1)
			o.sum.merge(e)
			d.advance(o)
		}
	}
	return d.done()
}

// ChildEnded stops waiting for a child, which has not reported. Exited: its ranks had ended.
func (d *Daemons) ChildEnded(l subtree.Link, exited bool) []Effect {
	for _, o := range slices.Clone(d.open) {
		if i := o.child(l); i >= 0 {
			if most := o.children[i].Most; exited {
				o.sum.ends.Over += most
			} else {
				o.sum.lose(most)
			}
			o.children = slices.Delete(o.children, i, i+1)
			d.advance(o)
		}
	}
	return d.done()
}

// Granted takes credit for output.
func (d *Daemons) Granted(id uint32, n int) []Effect {
	if o := d.find(id); o != nil {
		o.credit += n
		d.advance(o)
	}
	return d.done()
}

// End ends an order whose caller is gone.
func (d *Daemons) End(id uint32) []Effect {
	if o := d.find(id); o != nil {
		d.end(o)
	}
	return d.done()
}

// Keep lets the daemons of an order live on without a caller: their output is dropped.
func (d *Daemons) Keep(id uint32) []Effect {
	if o := d.find(id); o != nil {
		o.discards = true
		d.advance(o)
	}
	return d.done()
}

func (d *Daemons) end(o *order) {
	if !o.discards || !o.closed {
		d.kill(o)
		for _, c := range o.children {
			d.do(Effect{Do: End, ID: o.id, To: c.To})
		}
	}
	o.discards = true
	d.advance(o)
}

// ParentLost ends all orders, of which nobody hears any more.
func (d *Daemons) ParentLost() []Effect {
	for _, o := range slices.Clone(d.open) {
		o.mute = true
		d.end(o)
	}
	return d.done()
}

// Close ends the daemons of this node, since the job ends here. What they have written is still
// taken for some time. It can be called again.
func (d *Daemons) Close(now time.Duration) []Effect {
	for _, o := range slices.Clone(d.open) {
		if o.dieBy == 0 {
			o.takeBy, o.dieBy = now+takeMost, now+dieMost
			d.kill(o)
		}
		d.due(now, o)
	}
	return d.done()
}

func (d *Daemons) kill(o *order) {
	if !o.closed && len(o.own) > 0 {
		d.do(Effect{Do: Kill, ID: o.id})
	}
	o.closed = true
}

// Due does what the time is up for.
func (d *Daemons) Due(now time.Duration) []Effect {
	for _, o := range slices.Clone(d.open) {
		if o.dieBy > 0 {
			d.due(now, o)
		}
	}
	return d.done()
}

func (d *Daemons) due(now time.Duration, o *order) {
	if now < o.takeBy {
		d.do(Effect{Do: Wake, At: o.takeBy})
		return
	}
	o.discards = true
	if now < o.dieBy {
		d.do(Effect{Do: Wake, At: o.dieBy})
	} else {
		for _, number := range o.own {
			o.sum.add(number, o.host, job.Status{Kind: job.Lost}, "it has not died of SIGKILL")
		}
		o.own = nil
	}
	d.advance(o)
}

// advance passes on what credit allows, and ends the order if nothing of it is left.
func (d *Daemons) advance(o *order) {
	for len(o.queue) > 0 {
		c := o.queue[0]
		if !o.discards && o.credit < len(c.Data) {
			return
		}
		o.queue[0] = Chunk{}
		o.queue = o.queue[1:]
		if o.discards {
			o.sum.ends.Dropped = job.Added(o.sum.ends.Dropped, uint64(len(c.Data)))
		} else {
			o.credit -= len(c.Data)
			d.do(Effect{Do: Pass, ID: o.id, Chunk: c})
		}
		d.giveBack(o, c)
	}
	if len(o.own) > 0 || len(o.children) > 0 {
		return
	}
	d.open = slices.DeleteFunc(d.open, func(other *order) bool { return other == o })
	if !o.mute {
		d.do(Effect{Do: Ended, ID: o.id, Ends: o.sum.packed()})
	}
}

// giveBack lets the source of a chunk go on.
func (d *Daemons) giveBack(o *order, c Chunk) {
	if c.from == subtree.Up {
		d.do(Effect{Do: Resume, ID: o.id, Chunk: Chunk{Number: c.Number, Stream: c.Stream}})
		return
	}
	i := o.child(c.from)
	if i < 0 {
		return
	}
	k := &o.children[i]
	if k.owed += len(c.Data); k.owed >= ChildCredit/4 {
		d.do(Effect{Do: Grant, ID: o.id, To: c.from, N: k.owed})
		k.credit, k.owed = k.credit+k.owed, 0
	}
}

// LieOfOutput says what of a child's output cannot be; empty: nothing.
func (d *Daemons) LieOfOutput(l subtree.Link, id uint32, n int) string {
	if id > d.newest {
		return "of what was not ordered"
	}
	if o := d.find(id); o != nil {
		if i := o.child(l); i < 0 {
			return "of what was not ordered there, or has ended"
		} else if n > o.children[i].credit {
			return "beyond its credit"
		}
	}
	return ""
}

// LieOfEnds says what of a child's ends cannot be; empty: nothing. Has reports whether a daemon is
// of the child's subtree.
func (d *Daemons) LieOfEnds(l subtree.Link, id uint32, e rankwire.DaemonEnds, has func(number uint32) bool) string {
	if id > d.newest {
		return "of what was not ordered"
	}
	o := d.find(id)
	if o == nil {
		return ""
	}
	i := o.child(l)
	if i < 0 {
		return "of what was not ordered there, or has ended"
	}
	if uint64(e.Over)+uint64(e.Lost) > uint64(o.children[i].Most) ||
		uint64(e.Failed.Len())+uint64(e.More) > uint64(e.Daemons) {
		return "of more than it has"
	}
	for f := range e.Failed.All() {
		if !has(f.Number) {
			return "of another's"
		}
	}
	return ""
}
