package recovery

import "ibrun/bootstrap/core/subtree"

// Floors is an agent's part: which floors it has taken from its parent, and which of them its whole
// subtree has. A floor is confirmed once; a later one confirms all before it.
type Floors struct {
	below     *subtree.Subtree
	taken     uint32 // serial of the newest; 0: none
	here      uint32 // of the newest that is done on this node
	children  []uint32
	confirmed uint32 // by the whole subtree
}

// NewFloors makes the floors of an agent with a subtree.
func NewFloors(below *subtree.Subtree) Floors { return Floors{below: below} }

// Take takes the floor of a number. False: it was taken before.
func (f *Floors) Take(serial uint32) bool {
	if serial <= f.taken {
		return false
	}
	f.taken = serial
	return true
}

// Taken is the number of the newest floor that was taken; 0: none.
func (f *Floors) Taken() uint32 { return f.taken }

// Here says that the floors up to the newest are done on this node: what they end has ended.
func (f *Floors) Here() { f.here = f.taken }

// Confirm says that a child's subtree has the floors up to a number.
func (f *Floors) Confirm(child subtree.Link, serial uint32) {
	c := f.child(child)
	*c = max(*c, serial)
}

// Has reports whether a child's subtree has confirmed the newest floor that was taken.
func (f *Floors) Has(child subtree.Link) bool { return *f.child(child) >= f.taken }

func (f *Floors) child(l subtree.Link) *uint32 {
	for int(l) >= len(f.children) {
		f.children = append(f.children, 0)
	}
	return &f.children[l]
}

// News is the number up to which the whole subtree has the floors, if that has grown since it was
// asked for last. Children that have ended do not count.
func (f *Floors) News() (serial uint32, news bool) {
	serial = f.here
	for l := range subtree.Link(f.below.Children()) {
		if !f.below.Ended(l) {
			serial = min(serial, *f.child(l))
		}
	}
	news = serial > f.confirmed
	f.confirmed = max(f.confirmed, serial)
	return serial, news
}

// Confirmed is the number up to which the whole subtree has the floors, as News has last said.
func (f *Floors) Confirmed() uint32 { return f.confirmed }
