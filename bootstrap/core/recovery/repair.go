package recovery

import (
	"slices"

	"ibrun/internal/job"
)

// MayJoin reports whether an agent takes a link from one of a level, which is 0 at the root. Its
// parent so far has the level current. One that is nearer to the root has given that parent up;
// one that is farther away has been given up itself.
func MayJoin(current, offered uint32) bool { return offered <= current }

// Sent is what was sent on a link in order, and is kept until the other end grants its bytes. The
// zero value is empty.
type Sent[T any] struct {
	list  []T
	sizes []int
}

// Add keeps one that has n bytes.
func (s *Sent[T]) Add(one T, n int) { s.list, s.sizes = append(s.list, one), append(s.sizes, n) }

// Granted takes out the oldest that have n bytes in all.
func (s *Sent[T]) Granted(n int) []T {
	i := 0
	for ; i < len(s.list) && n >= s.sizes[i]; i++ {
		n -= s.sizes[i]
	}
	out := slices.Clone(s.list[:i])
	s.list, s.sizes = slices.Delete(s.list, 0, i), slices.Delete(s.sizes, 0, i)
	return out
}

// Take takes out all.
func (s *Sent[T]) Take() []T {
	out := s.list
	*s = Sent[T]{}
	return out
}

// Len is how many are kept.
func (s *Sent[T]) Len() int { return len(s.list) }

// Reports are failures that have a number at the node of the agent that saw them: those of an
// agent's subtree that the root has not passed, or at the root which it has had.
type Reports[R any] struct {
	serial uint32
	kept   []report[R]
	had    map[job.NodeIndex]uint32
}

type report[R any] struct {
	node   job.NodeIndex
	serial uint32
	of     R
}

// Begin lets numbers go on after one: those of an agent that had the place before are below it.
func (r *Reports[R]) Begin(after uint32) { r.serial = after }

// Next is the number of this agent's next report.
func (r *Reports[R]) Next() uint32 {
	r.serial++
	return r.serial
}

// Keep keeps one that is sent up. One that is kept already stays once.
func (r *Reports[R]) Keep(node job.NodeIndex, serial uint32, of R) {
	for _, k := range r.kept {
		if k.node == node && k.serial == serial {
			return
		}
	}
	r.kept = append(r.kept, report[R]{node, serial, of})
}

// Passed forgets those of a node up to a number.
func (r *Reports[R]) Passed(node job.NodeIndex, serial uint32) {
	r.kept = slices.DeleteFunc(r.kept, func(k report[R]) bool { return k.node == node && k.serial <= serial })
}

// Kept are those that have not been passed, in order.
func (r *Reports[R]) Kept() (list []R) {
	for _, k := range r.kept {
		list = append(list, k.of)
	}
	return list
}

// First reports whether the root has not had a report.
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

// Signals are those that have come down, of which the last are kept.
type Signals struct {
	count uint32
	last  []uint8
}

const keptSignals = 16

// Add keeps one.
func (s *Signals) Add(number uint8) {
	if s.count++; len(s.last) == keptSignals {
		s.last = slices.Delete(s.last, 0, 1)
	}
	s.last = append(s.last, number)
}

// Begin says how many have come before this agent was there.
func (s *Signals) Begin(count uint32) { s.count = count }

// Count is how many have come.
func (s *Signals) Count() uint32 { return s.count }

// After are those after the first n, as far as they are kept.
func (s *Signals) After(n uint32) []uint8 {
	missing := min(uint64(s.count)-min(uint64(n), uint64(s.count)), uint64(len(s.last)))
	return s.last[uint64(len(s.last))-missing:]
}

// Input is standard input that was passed on, in frames. As much is kept as two links may have on
// the way.
type Input[F any] struct {
	count uint32 // frames
	bytes int
	last  []F
	sizes []int
}

// Add keeps a frame of n bytes, and at least so many bytes before it.
func (in *Input[F]) Add(m F, n, least int) {
	in.count++
	in.bytes += n
	in.last, in.sizes = append(in.last, m), append(in.sizes, n)
	for len(in.last) > 0 && in.bytes-in.sizes[0] >= least {
		in.bytes -= in.sizes[0]
		in.last, in.sizes = slices.Delete(in.last, 0, 1), slices.Delete(in.sizes, 0, 1)
	}
}

// After are the frames after the first n. False: they are not kept any more.
func (in *Input[F]) After(n uint32) ([]F, bool) {
	if n > in.count || uint64(in.count-n) > uint64(len(in.last)) {
		return nil, n > in.count
	}
	return in.last[len(in.last)-int(in.count-n):], true
}

// Streams are how many bytes there were of each stream of each rank.
type Streams map[Stream]uint64

// Stream is one of a rank's.
type Stream struct {
	Rank   job.Slot
	Number uint8
}

// Next counts n bytes more, and returns how many there were before.
func (s Streams) Next(of Stream, n int) uint64 {
	at := s[of]
	s[of] += uint64(n)
	return at
}

// agentBits are the bits of a place in a stream that count bytes. Those above have the number of
// the agent among those that have had its place: a later one does not know where the stream was.
const agentBits = 44

// Base is the place at which the streams of an agent begin that has replaced another, by the number
// of the replacement.
func Base(number uint32) uint64 { return uint64(number) << agentBits }

// Fresh says what of a chunk is new: how many of its bytes were here before, and how many are
// missing ahead of it.
func (s Streams) Fresh(of Stream, at uint64, n int) (known int, missing uint64) {
	have, end := s[of], at+uint64(n)
	if at>>agentBits > have>>agentBits {
		have = at >> agentBits << agentBits // what the lost agent has taken with it is lost with its ranks
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
