package recovery

import (
	"slices"

	"ibrun/internal/job"
)

// MayJoin reports whether an agent accepts a new link to a parent. The level of an agent is its distance from the root.
// current is the level of the present parent. offered is the level of the agent that offers the link. If that agent is
// nearer to the root, it has declared the present parent lost. If it is farther away, it was declared lost itself.
func MayJoin(current, offered uint32) bool { return offered <= current }

// Sent retains messages that were sent to the parent until the parent grants credit for their bytes. The zero value is
// empty.
type Sent[T any] struct {
	list  []T   // oldest first
	sizes []int // sizes of the messages in list, in bytes
}

// Add retains the message one, which has n bytes of data.
func (s *Sent[T]) Add(one T, n int) { s.list, s.sizes = append(s.list, one), append(s.sizes, n) }

// Granted removes and returns the oldest messages that have at most n bytes together. It does not save the rest of n
// for the next call.
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

// Reports tracks reports of failures. The agent that detects a failure gives its report a serial number. The index of
// its node and this number identify the report. An agent retains the reports of its subtree until the root confirms
// them. The root records which reports it has handled. The zero value is empty.
type Reports[R any] struct {
	serial uint32                   // serial number of the last report of this agent; 0 means none
	kept   []report[R]              // reports that the root has not confirmed
	had    map[job.NodeIndex]uint32 // at the root: serial number of the last report handled, by node
}

// report is a retained report.
type report[R any] struct {
	node   job.NodeIndex // node that has detected the failure
	serial uint32        // serial number of the report at that node
	of     R             // the report itself
}

// Begin makes Next return after+1 and the following numbers. An agent that replaces a lost one uses it, because its
// numbers must be greater than those of the lost agent.
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

// Signals counts the signals for the ranks of the job that have arrived at an agent, and retains the last ones. The
// zero value is empty.
type Signals struct {
	count uint32
	last  []uint8 // signal numbers, oldest first
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

// Begin sets the number of signals that the job received before this agent started. They are not retained.
func (s *Signals) Begin(count uint32) { s.count = count }

// Count returns the number of signals added so far, plus the number set by Begin.
func (s *Signals) Count() uint32 { return s.count }

// After returns the numbers of the signals that followed the first n, oldest first. It omits those that are not
// retained.
func (s *Signals) After(n uint32) []uint8 {
	missing := min(uint64(s.count)-min(uint64(n), uint64(s.count)), uint64(len(s.last)))
	return s.last[uint64(len(s.last))-missing:]
}

// Input retains the last frames of standard input that an agent has forwarded, so that it can send them to a new child.
// The zero value is empty.
type Input[F any] struct {
	count uint32 // number of frames that were added
	bytes int    // total size of the frames in last
	last  []F    // retained frames, oldest first
	sizes []int  // sizes of the frames in last, in bytes
}

// Add retains the frame m, which has n bytes of data. It then removes the oldest frames, as long as the rest has at
// least the number of bytes in the parameter least.
func (in *Input[F]) Add(m F, n, least int) {
	in.count++
	in.bytes += n
	in.last, in.sizes = append(in.last, m), append(in.sizes, n)
	for len(in.last) > 0 && in.bytes-in.sizes[0] >= least {
		in.bytes -= in.sizes[0]
		in.last, in.sizes = slices.Delete(in.last, 0, 1), slices.Delete(in.sizes, 0, 1)
	}
}

// After returns the frames that were added after the first n. It returns false if some of them are not retained any
// more. If fewer than n frames were added, it returns nil and true.
func (in *Input[F]) After(n uint32) ([]F, bool) {
	if n > in.count || uint64(in.count-n) > uint64(len(in.last)) {
		return nil, n > in.count
	}
	return in.last[len(in.last)-int(in.count-n):], true
}

// Streams maps each output stream of each rank to the position after its last byte. The position of a byte is the
// number of bytes of the stream that its agent had read before it, plus the Base of that agent. The root's Streams
// contains such positions. The Streams of an agent counts without Base, so the agent adds it to the result of Next.
type Streams map[Stream]uint64

// Stream identifies an output stream of a rank.
type Stream struct {
	Rank   job.Slot
	Number uint8 // file descriptor of the rank, 1 or 2
}

// Next records that an agent has read n more bytes of a stream. It returns the number of bytes read before.
func (s Streams) Next(of Stream, n int) uint64 {
	at := s[of]
	s[of] += uint64(n)
	return at
}

// agentBits is the number of low bits of a position that count bytes. The bits above contain the number of the Replace
// that started the agent, because an agent does not know how many bytes the lost agent before it has sent.
const agentBits = 44

// Base returns the position at which the streams of an agent begin. number is the number of the Replace that started
// the agent, or 0 for the first agent of a node.
func Base(number uint32) uint64 { return uint64(number) << agentBits }

// Fresh records at the root that n bytes of a stream have arrived, the first of which has the position at. known is the
// number of these bytes that had arrived before. missing is the number of bytes before at that have not arrived. If a
// new agent has replaced the one that read the stream, missing does not count bytes that only the old agent has read.
func (s Streams) Fresh(of Stream, at uint64, n int) (known int, missing uint64) {
	have, end := s[of], at+uint64(n)
	if at>>agentBits > have>>agentBits {
		have = at >> agentBits << agentBits // the position at which the streams of the new agent begin
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
