// Package rankwire contains the messages between a rank and the agent of its node, encodes them as frames, and decodes
// them. Agents relay some of these messages to other agents in the same form. All other messages between agents are in
// package wire, which ranks do not import. The file bootstrap/wire/schema.txt describes the messages, and the files
// *_gen.go are generated from it.
//
// Channel is a rank's end of the connection to its agent. It sends and receives frames. Some of the frames that it
// receives come with a socket. All other code of the package performs no I/O.
package rankwire

import "ibrun/internal/job"

// Everyone is the value of Parcel.To in a parcel for all ranks.
const Everyone = ^job.Slot(0)

// ToolCredit is the maximum total Cost of the ToolPieces that are in transit in one direction of a session.
const ToolCredit = 256 << 10

// toolHead is the Cost of a ToolPiece without data, in bytes. It limits the number of empty pieces in transit.
const toolHead = 16

// Cost returns the number of bytes by which m reduces the credit of its sender: the length of its data and toolHead.
func (m ToolPiece) Cost() uint32 { return uint32(len(m.Data)) + toolHead }

// End returns the slot after the last slot of s.
func (s SlotSpan) End() job.Slot { return s.First + job.Slot(s.Count) }

// Asks reports whether q is about the given rank. A question without Ranks is about all ranks.
func (q *Question) Asks(rank job.Slot) bool { return q.AsksAny(rank, 1) }

// AsksAny reports whether q is about at least one of the ranks [first, first+count). It returns false if count is 0.
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

// Resizable reports whether nodes can be added to l or removed from its end without a change of the numbers of other
// ranks.
func Resizable(l job.Layout) bool { return l.Plane() == 0 && len(l.Order()) == 0 }

func (a Answered) String() string {
	return [...]string{"found", "exited", "failed", "no such rank"}[a]
}

func (c Collective) String() string {
	return [...]string{"Barrier", "Broadcast", "Gather", "AllGather", "Scatter", "AllToAll", "Resize"}[c]
}

func (s FollowStep) String() string { return [...]string{"can", "resize", "end", "cannot"}[s] }

func (s ResizeStep) String() string { return [...]string{"waits", "agreed", "done"}[s] }
