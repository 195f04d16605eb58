// Package bulk brings what all nodes have to those that ask for it. What that is, it does not
// know: the driver asks, gives and takes. A fence numbers a fetch; all nodes have passed that
// fence when the first of them asks.
//
//	request of this node or a child --> there already: served
//	                                --> passed up, once; at the root: called for
//	call, from the root down --> this node gives; all children have given or ended --> values up, once
//	values, from the root down --> kept for later requests; to this node and the children that asked
//
// A child that has ended gives nothing, and neither does a subtree whose values are too much for
// the tree: who misses a value asks for it alone.
package bulk

import (
	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
)

// Do is what an effect asks for.
type Do uint8

const (
	Request Do = iota // To is Up: ask for the values of Fence
	Call              // To is a child: ask for what its subtree has
	Read              // ask for what this node has; ReadDone answers
	Send              // put Values on the link To
	Deliver           // hand Values to this node
)

// Effect is something that the core must do.
type Effect struct {
	Do     Do
	To     subtree.Link
	Fence  uint32
	Values frame.Values
}

// Fetches is one agent's part in bulk fetches.
type Fetches struct {
	Started uint64 // fetches, at the root
	Called  uint32 // the newest fence that was called for

	below     *subtree.Subtree
	children  []child
	requested uint32 // the newest fence whose request was passed up
	own       uint32 // this node's own request; 0: none is open
	answered  bool   // this node has answered the newest call
	sent      bool   // the subtree has
	parts     frame.Values
	ready     uint32 // the newest whose values came down
	values    frame.Values
	out       []Effect

	Keeps bool         // what was sent, so that it can be sent again (repair.go)
	kept  frame.Values // the values that were sent last
}

// child has fences; 0: none.
type child struct {
	wants uint32 // the newest that it waits for
	gave  uint32 // the newest call that it answered
}

// New makes the part of an agent with a subtree.
func New(below *subtree.Subtree) Fetches { return Fetches{below: below} }

func (f *Fetches) child(l subtree.Link) *child {
	for int(l) >= len(f.children) {
		f.children = append(f.children, child{})
	}
	return &f.children[l]
}

func (f *Fetches) do(e Effect) { f.out = append(f.out, e) }

// done returns what was done since the last event.
func (f *Fetches) done() []Effect {
	out := f.out
	f.out = f.out[:0]
	return out
}

// Request takes the request of a child, or of this node for Up.
func (f *Fetches) Request(from subtree.Link, fence uint32) []Effect {
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
		f.do(Effect{Do: Request, To: subtree.Up, Fence: fence})
	}
	return f.done()
}

// Call takes the parent's call.
func (f *Fetches) Call(fence uint32) []Effect {
	f.call(fence)
	return f.done()
}

// call asks the subtree for what it has to give. A newer call takes the place of an older one.
func (f *Fetches) call(fence uint32) {
	if fence <= f.Called {
		f.giveAgain(fence)
		return
	}
	f.Called, f.answered, f.sent, f.parts = fence, f.below.Root, false, frame.Values{}
	for l := range subtree.Link(f.below.Children()) {
		f.do(Effect{Do: Call, To: l, Fence: fence})
	}
	if !f.below.Root {
		f.do(Effect{Do: Read, Fence: fence})
	}
	f.check()
}

// ReadDone takes what this node has, which is kept until it is passed on; nothing: it has nothing.
func (f *Fetches) ReadDone(fence uint32, value []byte) []Effect {
	if fence == f.Called && !f.answered {
		f.answered = true
		if len(value) > 0 {
			f.parts.Add(frame.NewValues(value))
		}
		f.check()
	}
	return f.done()
}

// Gave takes what a child's subtree has.
func (f *Fetches) Gave(from subtree.Link, fence uint32, values frame.Values) []Effect {
	if f.child(from).gave = fence; fence >= f.Called { // else a newer call took its place meanwhile
		f.parts.Add(values)
		f.check()
	}
	return f.done()
}

// ChildEnded goes on without a child that has ended.
func (f *Fetches) ChildEnded() []Effect {
	f.check()
	return f.done()
}

// check sends the values on when all of this subtree have given or never will.
func (f *Fetches) check() {
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
	f.do(Effect{Do: Send, To: subtree.Up, Fence: f.Called, Values: values})
}

// Values takes the values of all nodes from the parent.
func (f *Fetches) Values(fence uint32, values frame.Values) []Effect {
	f.take(fence, values)
	return f.done()
}

func (f *Fetches) take(fence uint32, values frame.Values) {
	f.ready, f.values = fence, values
	f.serve()
}

// Forget drops the values that came last: they may be of nodes that have left. Whoever asks for
// them gets none.
func (f *Fetches) Forget() { f.values = frame.Values{} }

// serve hands the values to those that asked for them.
func (f *Fetches) serve() {
	for i := range f.children {
		if k := &f.children[i]; k.wants > 0 && k.wants <= f.ready {
			k.wants = 0
			f.do(Effect{Do: Send, To: subtree.Link(i), Fence: f.ready, Values: f.values})
		}
	}
	if f.own > 0 && f.own <= f.ready {
		f.own = 0
		f.do(Effect{Do: Deliver, Fence: f.ready, Values: f.values})
	}
}

// Refuses reports whether a child cannot give for a fence: nobody called, or it has given.
func (f *Fetches) Refuses(from subtree.Link, fence uint32) bool {
	return fence > f.Called || fence <= f.child(from).gave
}

// Waits reports whether this subtree has asked the parent for values that have not come.
func (f *Fetches) Waits() bool { return f.requested > f.ready }
