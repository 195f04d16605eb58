package lazy

import (
	"sync/atomic"
	"time"
)

// suspectAfter is the time for which a receiver waits for one rank of another node before the table asks the agent
// whether that rank still runs. A rank that only receives sends no packets, so it cannot notice missing answers.
const suspectAfter = 2 * time.Second

// suspicion is a timer that detects a receiver that waits long for a peer. The timer keeps running after a receive,
// because starting and stopping it for each message would cost as much as the message.
type suspicion struct {
	since atomic.Int64 // start of the wait in ns since Table.began; 0 if no receiver waits
	armed atomic.Bool  // the timer is running
	timer *time.Timer
}

// begin records that a receiver may wait from now on, and starts the timer if it is not running.
func (s *suspicion) begin(now time.Duration) {
	s.since.Store(max(1, int64(now)))
	s.arm(suspectAfter)
}

// end records that the receiver does not wait any more.
func (s *suspicion) end() { s.since.Store(0) }

// arm starts the timer unless it is running.
func (s *suspicion) arm(after time.Duration) {
	if !s.armed.Swap(true) {
		s.timer.Reset(after)
	}
}

// due is called when the timer has expired. It reports whether a receiver has waited for suspectAfter, and then starts
// the timer again with twice that time. If a receiver has waited for less, due starts the timer for the rest.
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
