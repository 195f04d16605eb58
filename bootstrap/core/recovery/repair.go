package recovery

import (
	"slices"

	"ibrun/internal/job"
)

// MayJoin reports whether an agent accepts a new parent. The level of an agent is its distance from the root. current
// is the level of the present parent, and offered is the level of the new parent. An agent that is nearer to the root
// than the present parent has declared that parent lost. An agent that is farther away has been declared lost itself.
func MayJoin(current, offered uint32) bool { return offered <= current }

// Sent retains messages that were sent to the parent, in order, until the parent grants credit for their bytes. The
// zero value is empty.
type Sent[T any] struct {
	list  []T
	sizes []int
}

// Add retains the message one, which has n bytes.
func (s *Sent[T]) Add(one T, n int) { s.list, s.sizes = append(s.list, one), append(s.sizes, n) }

// Granted removes the oldest messages, as many as have at most n bytes together, and returns them.
func (s *Sent[T]) Granted(n int) []T {
	i := 0
	for ; i < len(s.list) && n >= s.sizes[i]; i++ {
		n -= s.sizes[i]
	}
	out := slices.Clone(s.list[:i])
	s.list, s.sizes = slices.Delete(s.list, 0, i), slices.Delete(s.sizes, 0, i)
	return out
}

// Take removes all messages and returns them, oldest first.
func (s *Sent[T]) Take() []T {
	out := s.list
	*s = Sent[T]{}
	return out
}

// Len returns the number of retained messages.
func (s *Sent[T]) Len() int { return len(s.list) }

// Reports tracks reports of failures. The agent that detects a failure gives its report a serial number, and the pair
// of node and serial number identifies the report. An agent retains the reports of its subtree until the root confirms
// them. The root records which reports it has handled. The zero value is empty.
type Reports[R any] struct {
	serial uint32                   // serial number of the last report of this agent
	kept   []report[R]              // reports that the root has not confirmed
	had    map[job.NodeIndex]uint32 // at the root: last serial number that it has handled, by node
}

// report is a retained report. The field of contains the report itself.
type report[R any] struct {
	node   job.NodeIndex
	serial uint32
	of     R
}

// Begin sets the last serial number. An agent that replaces another one must use greater numbers than that one.
func (r *Reports[R]) Begin(after uint32) { r.serial = after }

// Next returns the serial number for the next report of this agent.
func (r *Reports[R]) Next() uint32 {
	r.serial++
	return r.serial
}

// Keep retains a report that is sent to the parent. If it is retained already, Keep does nothing.
func (r *Reports[R]) Keep(node job.NodeIndex, serial uint32, of R) {
	for _, k := range r.kept {
		if k.node == node && k.serial == serial {
			return
		}
	}
	r.kept = append(r.kept, report[R]{node, serial, of})
}

// Passed removes the reports of a node up to the given serial number, which the root has confirmed.
func (r *Reports[R]) Passed(node job.NodeIndex, serial uint32) {
	r.kept = slices.DeleteFunc(r.kept, func(k report[R]) bool { return k.node == node && k.serial <= serial })
}

// Kept returns the retained reports, oldest first.
func (r *Reports[R]) Kept() (list []R) {
	for _, k := range r.kept {
		list = append(list, k.of)
	}
	return list
}

// First records at the root that a report is handled. It returns false if this report or a later one of the same node
// has been handled before.
func (r *Reports[R]) First(node job.NodeIndex, serial uint32) bool {
	if serial <= r.had[node] {
		return false
	}
	if r.had == nil {
		r.had = map[job.NodeIndex]uint32{}
	}
	r.had[node] = serial
	return true
}

// Signals counts the signals that the job has received, and retains the numbers of the last ones. The zero value is
// empty.
type Signals struct {
	count uint32
	last  []uint8 // oldest first
}

// keptSignals is the maximum number of signals that are retained.
const keptSignals = 16

// Add counts and retains a signal with the given number.
func (s *Signals) Add(number uint8) {
	if s.count++; len(s.last) == keptSignals {
		s.last = slices.Delete(s.last, 0, 1)
	}
	s.last = append(s.last, number)
}

// Begin sets the count to the number of signals that the job received before this agent started.
func (s *Signals) Begin(count uint32) { s.count = count }

// Count returns the number of signals that the job has received.
func (s *Signals) Count() uint32 { return s.count }

// After returns the signals after the first n of the job, oldest first. It omits those that are not retained any more.
func (s *Signals) After(n uint32) []uint8 {
	missing := min(uint64(s.count)-min(uint64(n), uint64(s.count)), uint64(len(s.last)))
	return s.last[uint64(len(s.last))-missing:]
}

// Input retains the last frames of standard input that an agent has forwarded, so that it can send them to a new child.
// The zero value is empty.
type Input[F any] struct {
	count uint32 // frames that were ever added
	bytes int    // total size of last
	last  []F    // retained frames, oldest first
	sizes []int  // sizes of last, in bytes
}

// Add retains the frame m, which has n bytes. It then removes the oldest frames that are not needed to retain at least
// least bytes.
func (in *Input[F]) Add(m F, n, least int) {
	in.count++
	in.bytes += n
	in.last, in.sizes = append(in.last, m), append(in.sizes, n)
	for len(in.last) > 0 && in.bytes-in.sizes[0] >= least {
		in.bytes -= in.sizes[0]
		in.last, in.sizes = slices.Delete(in.last, 0, 1), slices.Delete(in.sizes, 0, 1)
	}
}

// After returns the frames after the first n. It returns false if some of them are not retained any more. If fewer than
// n frames were added, it returns nil and true.
func (in *Input[F]) After(n uint32) ([]F, bool) {
	if n > in.count || uint64(in.count-n) > uint64(len(in.last)) {
		return nil, n > in.count
	}
	return in.last[len(in.last)-int(in.count-n):], true
}

// Streams maps each output stream of each rank to the position after its last byte. A position is the number of bytes
// before it in the stream, plus the Base of the agent that has read the byte.
type Streams map[Stream]uint64

// Stream identifies an output stream of a rank.
type Stream struct {
	Rank   job.Slot
	Number uint8 // file descriptor, 1 or 2
}

// Next adds n to the position of a stream, and returns the position before.
func (s Streams) Next(of Stream, n int) uint64 {
	at := s[of]
	s[of] += uint64(n)
	return at
}

// agentBits is the number of low bits of a position that count bytes. The bits above contain the number of the agent
// that has read the stream, because an agent that replaces a lost one does not know how many bytes that one has sent.
const agentBits = 44

// Base returns the position at which the streams of an agent begin. number is 0 for the first agent of a node, and the
// number of the replacement for an agent that has replaced a lost one.
func Base(number uint32) uint64 { return uint64(number) << agentBits }

// Fresh records that n bytes of a stream have arrived, the first of which has the position at. known is how many of
// them had arrived before, and missing is how many bytes before them have not arrived. Bytes of an agent that was
// replaced are not missing.
func (s Streams) Fresh(of Stream, at uint64, n int) (known int, missing uint64) {
	have, end := s[of], at+uint64(n)
	if at>>agentBits > have>>agentBits {
		have = at >> agentBits << agentBits // output that the lost agent had read and not sent is lost
	}
	switch {
	case end <= have:
		return n, 0
	case at <= have:
		known = int(have - at)
	default:
		missing = at - have
	}
	s[of] = end
	return known, missing
}
