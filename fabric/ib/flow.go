package ib

import "ibrun/cgo/verbs"

const (
	// dataDepth leaves work requests for the fabric's own messages.
	dataDepth = depth - 8
	// signalEvery is how many small messages, and signalPieces how many pieces, are
	// under way for each completion that says they are through.
	signalEvery  = 12
	signalPieces = 3
)

// outgoing is the sending half of a stream. Work requests are counted; the
// completion of one is that of all before it. Bytes are counted too, and the
// other side says how many it has read.
type outgoing struct {
	next, done uint32 // work requests posted, and through
	unsignaled int
	unmarked   int // pieces since the last signal
	last       [pieces]uint32
	head, tail int    // pieces posted, and through
	sent       uint32 // bytes of data in all
	total      uint64 // the same, which does not wrap
	allowed    uint32 // up to which the other side takes them
	window     uint32
	finish     bool // FIN is to be sent
	finSent    bool
	finAt      uint32
	batch      [pieces + 1]verbs.Send
}

// credit hears how much the other side has read in all.
func (o *outgoing) credit(consumed uint32) {
	if more := consumed + o.window - o.sent; more <= o.window && more > o.allowed-o.sent {
		o.allowed = consumed + o.window
	}
}

// complete hears that a work request is through.
func (o *outgoing) complete(id uint32) {
	if id+1-o.done > o.next-o.done {
		return
	}
	o.done = id + 1
	for o.tail < o.head && o.last[o.tail%pieces]-o.done > 1<<31 {
		o.tail++
	}
}

// signal decides whether a work request is to say that it is through.
func (o *outgoing) signal(isPiece, always bool) uint32 {
	o.unsignaled++
	if isPiece {
		o.unmarked++
	}
	if always || o.unsignaled >= signalEvery || o.unmarked >= signalPieces {
		o.unsignaled, o.unmarked = 0, 0
		return verbs.Signaled
	}
	return 0
}

// incoming is the receiving half: a queue of what has been copied out of the
// shared receives.
type incoming struct {
	ready    bool // the dialler's first message has come
	queue    []byte
	head     int // index of the first byte
	size     int
	consumed uint32 // bytes handed to the reader in all
	reported uint32 // of those, to the other side
	owed     bool   // it is to hear at once
}

// put adds bytes; false: they are more than was allowed.
func (i *incoming) put(b []byte, window int) bool {
	if i.size+len(b) > window {
		return false
	}
	if i.queue == nil {
		i.queue = make([]byte, window)
	}
	at := (i.head + i.size) % len(i.queue)
	n := copy(i.queue[at:], b)
	copy(i.queue, b[n:])
	i.size += len(b)
	return true
}

// take moves bytes to the reader.
func (i *incoming) take(p []byte) int {
	p = p[:min(len(p), i.size)]
	n := copy(p, i.queue[i.head:])
	n += copy(p[n:], i.queue)
	i.head = (i.head + n) % len(i.queue)
	i.size -= n
	i.consumed += uint32(n)
	return n
}
