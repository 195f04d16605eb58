// Package rankwire has the messages between a rank and the agent of its node, and turns them into frames and back.
// Agents relay some of them in the same form. The other messages between agents are in package wire, which no rank
// needs. The package is pure. bootstrap/wire/schema.txt describes the messages, and files *_gen.go are generated
// from it.
//
// Channel is a rank's end of the control channel, the descriptor that it inherits from its agent. It sends and
// receives frames, and descriptors that come with some of them.
package rankwire

import "ibrun/internal/job"

// Everyone as the To of a parcel stands for all ranks.
const Everyone = ^job.Slot(0)

// ToolCredit is how many bytes of ToolPiece may be on the way in each direction of a session.
const ToolCredit = 256 << 10

// toolHead is what a piece costs in credit besides its data.
const toolHead = 16

// Cost returns what a piece costs in credit.
func (m ToolPiece) Cost() uint32 { return uint32(len(m.Data)) + toolHead }

// End returns the slot after the last one.
func (s SlotSpan) End() job.Slot { return s.First + job.Slot(s.Count) }

// Asks reports whether a question is for a rank.
func (q *Question) Asks(rank job.Slot) bool { return q.AsksAny(rank, 1) }

// AsksAny reports whether a question is for one of the ranks [first, first+count).
func (q *Question) AsksAny(first job.Slot, count uint32) bool {
	if q.Ranks.Len() == 0 {
		return count > 0
	}
	for s := range q.Ranks.All() {
		if s.First < first+job.Slot(count) && first < s.End() {
			return true
		}
	}
	return false
}

// Resizable reports whether a layout can get further nodes, or fewer, without a change of other ranks' numbers.
func Resizable(l job.Layout) bool { return l.Plane() == 0 && len(l.Order()) == 0 }

func (a Answered) String() string {
	return [...]string{"found", "exited", "failed", "no such rank"}[a]
}

func (c Collective) String() string {
	return [...]string{"Barrier", "Broadcast", "Gather", "AllGather", "Scatter", "AllToAll", "Resize"}[c]
}

func (s FollowStep) String() string { return [...]string{"can", "resize", "end", "cannot"}[s] }

func (s ResizeStep) String() string { return [...]string{"waits", "agreed", "done"}[s] }
