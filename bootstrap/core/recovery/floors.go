package recovery

import "ibrun/bootstrap/core/subtree"

// Floors records which floors an agent has received, and which of them have been applied by all agents of its subtree.
// A floor is a message with the oldest valid epoch of some ranks. Floors have ascending serial numbers from 1. The
// confirmation of a floor also confirms all earlier floors. In this type, serial number 0 means no floor.
type Floors struct {
	below     *subtree.Subtree
	taken     uint32   // serial number of the newest floor that has arrived
	here      uint32   // serial number of the newest floor that is applied on this node
	children  []uint32 // serial numbers of the newest floors that each child has confirmed, by subtree.Link
	confirmed uint32   // greatest serial number that News has returned
}

// NewFloors returns the Floors of an agent with the given subtree.
func NewFloors(below *subtree.Subtree) Floors { return Floors{below: below} }

// Take records that the floor with the given serial number has arrived. It returns false if this floor or a newer one
// has arrived before.
func (f *Floors) Take(serial uint32) bool {
	if serial <= f.taken {
		return false
	}
	f.taken = serial
	return true
}

// Taken returns the serial number of the newest floor that has arrived, or 0.
func (f *Floors) Taken() uint32 { return f.taken }

// Here records that all floors that have arrived are applied on this node.
func (f *Floors) Here() { f.here = f.taken }

// Confirm records that all agents of a child's subtree have applied the floors up to the given serial number.
func (f *Floors) Confirm(child subtree.Link, serial uint32) {
	c := f.child(child)
	*c = max(*c, serial)
}

// Has reports whether a child's subtree has confirmed the newest floor that has arrived at this agent.
func (f *Floors) Has(child subtree.Link) bool { return *f.child(child) >= f.taken }

// child returns a pointer to the serial number of the newest floor that the child l has confirmed.
func (f *Floors) child(l subtree.Link) *uint32 {
	for int(l) >= len(f.children) {
		f.children = append(f.children, 0)
	}
	return &f.children[l]
}

// News returns the serial number up to which this node and the subtrees of all children have applied the floors. news
// reports whether it is greater than at all earlier calls. News ignores children that have ended.
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

// Confirmed returns the greatest serial number that News has returned, or 0.
func (f *Floors) Confirmed() uint32 { return f.confirmed }
