package flow

import (
	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
)

// InputCredit is the maximum number of bytes of standard input that a caller may have sent and that its daemon has not
// read yet (docs/dev/decisions/0026-gdb-pipe-overview.md). The limit covers the whole route through the tree, so no
// agent buffers more.
const InputCredit = 256 << 10

// input is the state, at this agent, of the standard input that a caller sends to a daemon. An order has only one
// daemon if its daemon reads input.
type input struct {
	reads bool // the order is for a daemon that reads input
	sent  int  // bytes that this agent has passed on and for which it has received no credit yet
	deaf  bool // the daemon runs on this node and has stopped reading
}

// feed passes input from the caller on to the daemon of this node, or to the child whose subtree contains the daemon.
// If the daemon has stopped reading, feed drops the input and returns the credit for it. If the daemon has ended, feed
// drops the input and returns no credit.
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

// inputClosed records that the daemon of this node has stopped reading. It returns the credit for all unread input, so
// that the caller does not wait for it.
func (t *Tools) inputClosed(o *order) {
	if o != nil && o.input.reads && !o.input.deaf {
		o.input.deaf = true
		t.inputTaken(o, o.input.sent)
		o.input.sent = 0
	}
}

// inputReadBelow handles credit for n bytes of input from child l. The daemon in the subtree of l has read these bytes,
// or an agent has dropped them.
func (t *Tools) inputReadBelow(o *order, l subtree.Link, n int) {
	if o != nil && o.child(l) >= 0 {
		o.input.sent -= n
		t.inputTaken(o, n)
	}
}

// inputTaken gives the caller credit for n more bytes of input. The root gives it directly. Any other agent sends it to
// its parent.
func (t *Tools) inputTaken(o *order, n int) {
	switch {
	case n == 0 || o.mute:
	case t.below.Root:
		t.do(SessionRoom{t.tickets[o.id], uint32(n)})
	default:
		t.send(subtree.Up, wire.DaemonRoom{ID: o.id, N: uint32(n)})
	}
}
