package flow

import (
	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
)

// InputCredit is the standard input, in bytes, that a caller may have on the way to its daemon, which stands beside one
// rank (docs/dev/decisions/0026-gdb-pipe-overview.md). It holds from end to end: no agent on the way keeps more.
const InputCredit = 256 << 10

// input is standard input on its way to the one daemon of an order.
type input struct {
	reads bool // the order is of a daemon that reads
	sent  int  // bytes that have gone on from here and have not been taken yet
	deaf  bool // the daemon of this node reads no more
}

// feed passes on input. What a daemon that has ended or reads no more would get is dropped.
func (t *Tools) feed(o *order, in wire.Stdin) {
	switch {
	case o == nil || !o.input.reads:
	case o.input.deaf:
		t.inputTaken(o, len(in.Data))
	case len(o.own) > 0:
		o.input.sent += len(in.Data)
		t.do(FeedDaemon{o.id, in})
	case len(o.children) > 0:
		o.input.sent += len(in.Data)
		t.send(o.children[0].to, wire.DaemonInput{ID: o.id, Stdin: in})
	}
}

// inputRead takes the news that the daemon of this node has taken n bytes of input.
func (t *Tools) inputRead(o *order, n int) {
	if o != nil && !o.input.deaf {
		n = min(n, o.input.sent)
		o.input.sent -= n
		t.inputTaken(o, n)
	}
}

// inputClosed takes the news that the daemon of this node reads no more: the caller is not held up by it.
func (t *Tools) inputClosed(o *order) {
	if o != nil && o.input.reads && !o.input.deaf {
		o.input.deaf = true
		t.inputTaken(o, o.input.sent)
		o.input.sent = 0
	}
}

// inputReadBelow takes the news that the daemon in a child's subtree has taken n bytes of input.
func (t *Tools) inputReadBelow(o *order, l subtree.Link, n int) {
	if o != nil && o.child(l) >= 0 {
		o.input.sent -= n
		t.inputTaken(o, n)
	}
}

// inputTaken lets the caller send n more bytes.
func (t *Tools) inputTaken(o *order, n int) {
	switch {
	case n == 0 || o.mute:
	case t.below.Root:
		t.do(SessionRoom{t.tickets[o.id], uint32(n)})
	default:
		t.send(subtree.Up, wire.DaemonRoom{ID: o.id, N: uint32(n)})
	}
}
