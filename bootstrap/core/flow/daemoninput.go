package flow

import (
	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
)

// InputCredit is the maximum number of bytes of standard input that are in transit from a caller to its daemon, which
// runs beside one rank (docs/dev/decisions/0026-gdb-pipe-overview.md). The limit covers the whole route, so no agent on
// it buffers more.
const InputCredit = 256 << 10

// input is the state of standard input for the only daemon of an order.
type input struct {
	reads bool // the daemon of the order reads input
	sent  int  // bytes that this agent has passed on and the daemon has not read yet
	deaf  bool // the daemon runs on this node and has stopped reading
}

// feed passes input on towards the daemon. It drops the input if the daemon has ended or has stopped reading.
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

// inputRead records that the daemon of this node has read n bytes of input.
func (t *Tools) inputRead(o *order, n int) {
	if o != nil && !o.input.deaf {
		n = min(n, o.input.sent)
		o.input.sent -= n
		t.inputTaken(o, n)
	}
}

// inputClosed records that the daemon of this node has stopped reading. It returns the credit for unread input, so that
// the caller does not block.
func (t *Tools) inputClosed(o *order) {
	if o != nil && o.input.reads && !o.input.deaf {
		o.input.deaf = true
		t.inputTaken(o, o.input.sent)
		o.input.sent = 0
	}
}

// inputReadBelow records that the daemon in the subtree of child l has read n bytes of input.
func (t *Tools) inputReadBelow(o *order, l subtree.Link, n int) {
	if o != nil && o.child(l) >= 0 {
		o.input.sent -= n
		t.inputTaken(o, n)
	}
}

// inputTaken grants the caller credit for n more bytes of input.
func (t *Tools) inputTaken(o *order, n int) {
	switch {
	case n == 0 || o.mute:
	case t.below.Root:
		t.do(SessionRoom{t.tickets[o.id], uint32(n)})
	default:
		t.send(subtree.Up, wire.DaemonRoom{ID: o.id, N: uint32(n)})
	}
}
