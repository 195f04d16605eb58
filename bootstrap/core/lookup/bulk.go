package lookup

import (
	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
)

// BulkDo is the action that a BulkEffect requests from the core.
type BulkDo uint8

const (
	RequestBulk BulkDo = iota // request the values of Fence from the parent; To is Up
	CallBulk                  // request the values of the subtree of the child To
	ReadBulk                  // read the values of this node, and pass them to ReadDone
	SendBulk                  // send Values over the link To
	DeliverBulk               // pass Values to the driver of this node
)

// BulkEffect is an action that the core must perform for a bulk fetch. Fence is the number of the fetch.
type BulkEffect struct {
	Do     BulkDo
	To     subtree.Link
	Fence  uint32
	Values frame.Values
}

// Bulk implements bulk fetches in one agent. A bulk fetch collects the values of all nodes and brings them to the nodes
// that have requested them. Bulk does not interpret the values. The driver of this node reads and stores them. The
// number of a fetch is that of a fence, which all nodes have passed when the first of them sends a request.
//
//	request of this node or a child --values known--> they are sent
//	                                --otherwise--> one request to the parent; at the root: a call to the children
//	call from the parent --this node has read its values, all children have answered or ended--> values to the parent
//	values from the parent --> retained for later requests, sent to this node and the children that requested them
//
// A child that has ended sends no values. A subtree sends none if they are too large for one message. A node that
// misses a value after a bulk fetch looks up this value individually.
type Bulk struct {
	Started uint64 // number of fetches, counted at the root only
	Called  uint32 // number of the newest fetch for which the children were called

	below     *subtree.Subtree
	children  []bulkChild
	requested uint32 // number of the newest fetch that was requested from the parent
	own       uint32 // number of the fetch that this node waits for; 0 means none
	answered  bool   // this node's values for the newest call were read; always true at the root
	sent      bool   // the values of this subtree were sent for the newest call
	parts     frame.Values
	ready     uint32 // number of the newest fetch that is complete, so that values are known
	values    frame.Values
	out       []BulkEffect

	Keeps bool         // retain the values that were sent last, to send them again to a new parent (bulkrepair.go)
	kept  frame.Values // values that were sent to the parent last
}

// bulkChild contains the numbers of the newest fetches of one child. 0 means none.
type bulkChild struct {
	wants uint32 // number of the fetch whose values the child waits for
	gave  uint32 // number of the newest fetch for which the child has sent its values
}

// NewBulk returns the Bulk of an agent. below contains the children of the agent.
func NewBulk(below *subtree.Subtree) Bulk { return Bulk{below: below} }

func (f *Bulk) child(l subtree.Link) *bulkChild {
	for int(l) >= len(f.children) {
		f.children = append(f.children, bulkChild{})
	}
	return &f.children[l]
}

func (f *Bulk) do(e BulkEffect) { f.out = append(f.out, e) }

// done returns the effects since the last event.
func (f *Bulk) done() []BulkEffect {
	out := f.out
	f.out = f.out[:0]
	return out
}

// Request handles the request of a child for a fetch. If from is Up, this node itself has sent the request.
func (f *Bulk) Request(from subtree.Link, fence uint32) []BulkEffect {
	if from == subtree.Up {
		f.own = max(f.own, fence)
	} else {
		k := f.child(from)
		k.wants = max(k.wants, fence)
	}
	switch {
	case fence <= f.ready:
		f.serve()
	case fence <= f.requested:
	case f.below.Root:
		f.requested = fence
		f.Started++
		f.call(fence)
	default:
		f.requested = fence
		f.do(BulkEffect{Do: RequestBulk, To: subtree.Up, Fence: fence})
	}
	return f.done()
}

// Call handles the parent's request for the values of this subtree.
func (f *Bulk) Call(fence uint32) []BulkEffect {
	f.call(fence)
	return f.done()
}

// call requests the values of this node and of the children's subtrees. It replaces an older call.
func (f *Bulk) call(fence uint32) {
	if fence <= f.Called {
		f.giveAgain(fence)
		return
	}
	f.Called, f.answered, f.sent, f.parts = fence, f.below.Root, false, frame.Values{}
	for l := range subtree.Link(f.below.Children()) {
		f.do(BulkEffect{Do: CallBulk, To: l, Fence: fence})
	}
	if !f.below.Root {
		f.do(BulkEffect{Do: ReadBulk, Fence: fence})
	}
	f.check()
}

// ReadDone handles the values of this node, which Bulk retains until it sends them. They are empty if the node has
// none.
func (f *Bulk) ReadDone(fence uint32, value []byte) []BulkEffect {
	if fence == f.Called && !f.answered {
		f.answered = true
		if len(value) > 0 {
			f.parts.Add(frame.NewValues(value))
		}
		f.check()
	}
	return f.done()
}

// Gave handles the values of a child's subtree.
func (f *Bulk) Gave(from subtree.Link, fence uint32, values frame.Values) []BulkEffect {
	if f.child(from).gave = fence; fence >= f.Called { // otherwise a newer call has replaced that call
		f.parts.Add(values)
		f.check()
	}
	return f.done()
}

// ChildEnded stops waiting for the values of a child that has ended.
func (f *Bulk) ChildEnded() []BulkEffect {
	f.check()
	return f.done()
}

// check sends the values of this subtree when this node and all children have provided theirs or have ended.
func (f *Bulk) check() {
	if f.sent || !f.answered {
		return
	}
	for l := range subtree.Link(f.below.Children()) {
		if !f.below.Ended(l) && f.child(l).gave < f.Called {
			return
		}
	}
	values := f.parts
	if values.Size() > rankwire.MaxGather {
		values = frame.Values{}
	}
	f.sent, f.parts = true, frame.Values{}
	if f.below.Root {
		f.take(f.Called, values)
		return
	}
	if f.Keeps {
		f.kept = values
	}
	f.do(BulkEffect{Do: SendBulk, To: subtree.Up, Fence: f.Called, Values: values})
}

// Values handles the values of all nodes, which the parent has sent.
func (f *Bulk) Values(fence uint32, values frame.Values) []BulkEffect {
	f.take(fence, values)
	return f.done()
}

func (f *Bulk) take(fence uint32, values frame.Values) {
	f.ready, f.values = fence, values
	f.serve()
}

// Forget drops the values of the newest fetch, because they may be from nodes that have left the job. Later requests
// for them get no values.
func (f *Bulk) Forget() { f.values = frame.Values{} }

// serve sends the values to the children and to the node that have requested them.
func (f *Bulk) serve() {
	for i := range f.children {
		if k := &f.children[i]; k.wants > 0 && k.wants <= f.ready {
			k.wants = 0
			f.do(BulkEffect{Do: SendBulk, To: subtree.Link(i), Fence: f.ready, Values: f.values})
		}
	}
	if f.own > 0 && f.own <= f.ready {
		f.own = 0
		f.do(BulkEffect{Do: DeliverBulk, Fence: f.ready, Values: f.values})
	}
}

// Refuses reports whether values from a child for a fence are invalid, because this agent has not called for them or
// the child has sent its values before.
func (f *Bulk) Refuses(from subtree.Link, fence uint32) bool {
	return fence > f.Called || fence <= f.child(from).gave
}

// Waits reports whether this agent has requested values from the parent that have not come yet.
func (f *Bulk) Waits() bool { return f.requested > f.ready }
