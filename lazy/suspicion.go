package lazy

import (
	"sync/atomic"
	"time"
)

// suspectAfter is how long a receiver waits for one rank of another node before
// the agent is asked whether that rank still runs. Nothing else would tell: who
// only receives sends nothing that could stay without an answer.
const suspectAfter = 2 * time.Second

// suspicion is the watch over a peer that a receiver waits for. Its timer runs on
// while receivers come and go: to set and stop one for each message would cost as
// much as the message.
type suspicion struct {
	since atomic.Int64 // from when a receiver waits, by the table's clock, in ns; 0: nobody does
	armed atomic.Bool  // the timer runs
	timer *time.Timer
}

// begin is before a receiver may wait.
func (s *suspicion) begin(now time.Duration) {
	s.since.Store(max(1, int64(now)))
	s.arm(suspectAfter)
}

// end is after that.
func (s *suspicion) end() { s.since.Store(0) }

func (s *suspicion) arm(after time.Duration) {
	if !s.armed.Swap(true) {
		s.timer.Reset(after)
	}
}

// due is what the timer asks when it fires: has a receiver waited for so long. If not, it is set
// for when one will have, or stays unset until the next one comes.
func (s *suspicion) due(now time.Duration) bool {
	s.armed.Store(false)
	since := s.since.Load()
	if since == 0 {
		return false
	}
	rest := suspectAfter - (now - time.Duration(since))
	if rest > 0 {
		s.arm(rest)
		return false
	}
	s.arm(2 * suspectAfter)
	return true
}
