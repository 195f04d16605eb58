package lookup

import "ibrun/bootstrap/core/subtree"

// A fetch is a fence, so that it can be asked and called for again on a new link: a child gives
// for each fence once, and a request is for the newest.

// Took lets a child stand for another one, which is about to end: it has given with that one.
func (f *Bulk) Took(child, from subtree.Link) { f.child(child).gave = f.child(from).gave }

// CallAgain repeats the call that a child has not answered, on a link that is new.
func (f *Bulk) CallAgain(child subtree.Link) []BulkEffect {
	if f.Called > 0 && !f.sent && f.child(child).gave < f.Called {
		f.do(BulkEffect{Do: CallBulk, To: child, Fence: f.Called})
	}
	return f.done()
}

// RequestAgain repeats the request to the parent, on a link that is new.
func (f *Bulk) RequestAgain() []BulkEffect {
	if f.Waits() {
		f.do(BulkEffect{Do: RequestBulk, To: subtree.Up, Fence: f.requested})
	}
	return f.done()
}

// giveAgain answers a call that was answered to a parent that is lost.
func (f *Bulk) giveAgain(fence uint32) {
	if f.Keeps && fence == f.Called && f.sent && !f.below.Root {
		f.do(BulkEffect{Do: SendBulk, To: subtree.Up, Fence: fence, Values: f.kept})
	}
}
