package daemons

import (
	"ibrun/bootstrap/core/subtree"
	"ibrun/internal/job"
)

// InputCredit is the standard input, in bytes, that a caller may have on the way to its daemon. It
// holds from end to end: no agent on the way keeps more.
const InputCredit = 256 << 10

// Input is a piece of standard input for the one daemon of an order.
type Input struct {
	Data   []byte
	EOF    bool       // nothing follows
	Window job.Window // if not zero, its terminal has this size from here on
}

// input is standard input on its way to the one daemon of an order.
type input struct {
	reads bool // the order is of a daemon that reads
	sent  int  // bytes that have gone on from here and have not been taken yet
	deaf  bool // the daemon of this node reads no more
}

// Reads says that the one daemon of an order reads what its caller sends.
func (d *Daemons) Reads(id uint32) {
	if o := d.find(id); o != nil {
		o.input.reads = true
	}
}

// Feed passes on input. What a daemon that has ended or reads no more would get is dropped.
func (d *Daemons) Feed(id uint32, in Input) []Effect {
	o := d.find(id)
	if o == nil || !o.input.reads {
		return nil
	}
	switch {
	case o.input.deaf:
		d.taken(o, len(in.Data))
	case len(o.own) > 0:
		o.input.sent += len(in.Data)
		d.do(Effect{Do: Feed, ID: id, Input: in})
	case len(o.children) > 0:
		o.input.sent += len(in.Data)
		d.do(Effect{Do: Down, ID: id, To: o.children[0].To, Input: in})
	}
	return d.done()
}

// Taken says that the daemon of this node has taken input.
func (d *Daemons) Taken(id uint32, n int) []Effect {
	if o := d.find(id); o != nil && !o.input.deaf {
		n = min(n, o.input.sent)
		o.input.sent -= n
		d.taken(o, n)
	}
	return d.done()
}

// Deaf says that the daemon of this node reads no more: the caller is not held up by it.
func (d *Daemons) Deaf(id uint32) []Effect {
	if o := d.find(id); o != nil && o.input.reads && !o.input.deaf {
		o.input.deaf = true
		d.taken(o, o.input.sent)
		o.input.sent = 0
	}
	return d.done()
}

// TakenBelow says that the daemon in a child's subtree has taken input.
func (d *Daemons) TakenBelow(l subtree.Link, id uint32, n int) []Effect {
	if o := d.find(id); o != nil && o.child(l) >= 0 {
		o.input.sent -= n
		d.taken(o, n)
	}
	return d.done()
}

func (d *Daemons) taken(o *order, n int) {
	if n > 0 && !o.mute {
		d.do(Effect{Do: Room, ID: o.id, N: n})
	}
}

// LieOfRoom says what of a child's room cannot be; empty: nothing.
func (d *Daemons) LieOfRoom(l subtree.Link, id uint32, n int) string {
	if id > d.newest {
		return "of what was not ordered"
	}
	if o := d.find(id); o != nil && (o.child(l) < 0 || n > o.input.sent) {
		return "of more than it was sent"
	}
	return ""
}

// LieOfInput says what of the parent's input cannot be; empty: nothing.
func (d *Daemons) LieOfInput(id uint32, n int) string {
	if o := d.find(id); o != nil && (!o.input.reads || o.input.sent+n > InputCredit) {
		return "for what does not read, or for no room"
	}
	return ""
}
