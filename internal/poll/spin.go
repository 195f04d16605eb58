// Package poll has three means to wait for input at a lower cost. A Spinner polls for a while before its caller sleeps,
// because to sleep and be woken takes some microseconds. A Turn decides which goroutine reads a descriptor: the
// goroutine that owns it, or one that waits for a message of it, which saves a switch of goroutines. ParkedReader reads
// a descriptor that must stay in blocking mode because other processes share it. A goroutine that blocks in read(2)
// would keep its processor (P) of the Go scheduler, and delay the goroutines that wait for it, for about a millisecond.
package poll

import "time"

// How long is polled for: Short pays on a CPU of one's own, where an answer takes some tens of
// microseconds (docs/dev/decisions/0032-data-path.md). Long is for those who ask for it.
const (
	Short = 50 * time.Microsecond
	Long  = time.Millisecond
)

// mostRest is how many waits at most go without a try after tries that brought nothing.
const mostRest = 64

// Spinner is one waiter's polling. The zero value never polls.
type Spinner struct {
	most   time.Duration
	always bool // it polls each time
	rare   Rare
}

// NewSpinner returns a Spinner whose Poll polls for at most the duration most. If always is false and polls have ended
// without a result, some of the next calls of Poll return at once.
func NewSpinner(most time.Duration, always bool) Spinner { return Spinner{most: most, always: always} }

// Poll tries until that has done something, and reports whether it has. Polls that bring nothing
// make the next ones rarer, and others make them more common.
func (s *Spinner) Poll(try func() (done bool)) bool {
	if s.most == 0 {
		return false
	}
	if !s.always && !s.rare.Due() {
		return false
	}
	for began := time.Now(); ; {
		if try() {
			s.rare.Note(true)
			return true
		}
		if time.Since(began) > s.most {
			s.rare.Note(false)
			return false
		}
	}
}
