package core

import (
	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/wire"
)

// Credit for output, in bytes. A child may send as many bytes as it has credit. The parent grants new credit when it
// has forwarded the bytes. An agent therefore stores at most output.window bytes per child and one chunk per stream of
// its own ranks.
const (
	sinkWindow  = 1 << 20          // bytes in Write effects that the driver has not completed, in the root
	creditTotal = 8 << 20          // sum of the credits of all children of an agent
	creditMost  = 512 << 10        // maximum for one child
	creditLeast = 4 * wire.MaxData // minimum for one child, even if the sum then exceeds creditTotal
)

func (f *output) open(children int) {
	f.window = min(max(creditTotal/max(children, 1), creditLeast), creditMost)
}

func (f *output) push(c chunk) {
	if f.head > 64 && f.head > len(f.queue)/2 {
		n := copy(f.queue, f.queue[f.head:])
		clear(f.queue[n:])
		f.queue, f.head = f.queue[:n], 0
	}
	f.queue = append(f.queue, c)
}

func (f *output) empty() bool { return f.head == len(f.queue) }

// pumpOutput forwards as many chunks of the queue as the credit of this agent allows, in their order.
func (c *Core) pumpOutput() {
	f, r := &c.flow, &c.repair
	for !f.empty() && (f.discarding || !r.waiting && !r.unresumed) {
		k := f.queue[f.head]
		if !f.discarding && f.credit < len(k.data) {
			return
		}
		f.queue[f.head] = chunk{}
		f.head++
		c.passOutput(k)
		if !c.keepSent(k) {
			c.giveBack(k)
		}
	}
	if !f.empty() {
		return
	}
	f.queue, f.head = f.queue[:0], 0
}

func (c *Core) passOutput(k chunk) {
	f := &c.flow
	switch {
	case f.discarding:
		f.truncated += uint64(len(k.data))
		return
	case c.cfg.Root:
		c.do(Write{k.rank, k.stream, k.data})
	case c.repairs():
		c.send(Up, wire.Chunk{At: k.at, Output: wire.Output{Rank: k.rank, Stream: k.stream, Data: k.data}})
	default:
		c.send(Up, wire.Output{Rank: k.rank, Stream: k.stream, Data: k.data})
	}
	f.credit -= len(k.data)
}

// giveBack lets the source of a chunk go on.
func (c *Core) giveBack(k chunk) {
	if k.from == Up {
		c.do(Resume{k.rank, k.stream})
		return
	}
	from := &c.children[k.from]
	from.owed += len(k.data) + k.known
	if (from.owed >= c.flow.window/4 || c.repairs()) && !from.In(child.Ended) {
		c.send(k.from, wire.Grant{N: uint32(from.owed)})
		from.credit, from.owed = from.credit+from.owed, 0
	}
}
