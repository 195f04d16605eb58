// Package waitfor polls until a condition holds. Only tests use it.
//
// A test has a race if it checks a state only once that another goroutine or process is about to change. Such a test
// should wait for an event, such as a message on a channel or the end of a process. If there is no such event, it polls
// with this package. Except in this package, tests without a build tag must not read a clock.
package waitfor

import (
	"errors"
	"time"
)

// Deadline is the longest time that a test waits for a condition. It is long because only a test that hangs reaches it.
const Deadline = time.Minute

// maxInterval is the longest pause after a poll that took at most 25 ms. The pause starts at 1 ms and doubles with each
// poll. After a slower poll, pauseFactor determines the pause.
const maxInterval = 100 * time.Millisecond

// pauseFactor is the least ratio of a pause to the duration of the poll before it, for pauses of up to 1 s. It limits
// the CPU time of expensive polls: to list all processes takes 20 ms, and to start ibrun takes more.
const pauseFactor = 4

// ErrDeadline is returned if the condition does not hold within Deadline.
var ErrDeadline = errors.New("timed out after " + Deadline.String())

// True calls ok again and again until ok returns true. If that takes longer than Deadline, True returns ErrDeadline.
func True(ok func() bool) error {
	interval := time.Millisecond
	for began, end := time.Now(), time.Now().Add(Deadline); !ok(); began = time.Now() {
		if time.Now().After(end) {
			return ErrDeadline
		}
		time.Sleep(max(interval, min(pauseFactor*time.Since(began), time.Second)))
		interval = min(2*interval, maxInterval)
	}
	return nil
}

// TB is the part of testing.TB that this package uses.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Require calls ok again and again until ok returns true. If that takes longer than Deadline, Require fails the test
// with a message that contains condition.
func Require(t TB, condition string, ok func() bool) {
	t.Helper()
	if err := True(ok); err != nil {
		t.Fatalf("%s: %v", condition, err)
	}
}

// Receive returns the next value of c. It fails the test if c is closed, or if no value arrives within Deadline.
func Receive[V any](t TB, c <-chan V) (v V) {
	t.Helper()
	select {
	case v, ok := <-c:
		if !ok {
			t.Fatalf("channel is closed, want a value")
		}
		return v
	case <-time.After(Deadline):
		t.Fatalf("no value received: %v", ErrDeadline)
		return v
	}
}

// Closed waits until c is closed. It fails the test if c delivers a value, or if c is not closed within Deadline.
func Closed[V any](t TB, c <-chan V) {
	t.Helper()
	select {
	case v, ok := <-c:
		if ok {
			t.Fatalf("received %v, want a closed channel", v)
		}
	case <-time.After(Deadline):
		t.Fatalf("channel not closed: %v", ErrDeadline)
	}
}
