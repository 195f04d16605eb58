// Package spin says how long to poll for what is awaited before the wait goes to sleep. To sleep
// and to be woken costs some microseconds, and while a CPU has nothing else to do, polling costs
// nothing. Where several processes share a CPU it keeps the one from running that is waited for.
//
// It refuses to find out who shares a CPU.
package spin

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

// New polls for so long at a time; always, or as long as that brings something.
func New(most time.Duration, always bool) Spinner { return Spinner{most: most, always: always} }

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
