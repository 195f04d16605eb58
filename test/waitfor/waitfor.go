// Package waitfor polls until a condition holds. Only tests use it.
//
// A test that checks a changing state only once has a race. A test should wait for an event, such as a message on a
// channel or the end of a process. If there is no such event, it polls with this package, so that other code of tests
// without a build tag need not read a clock.
package waitfor

import (
	"errors"
	"time"
)

// Deadline is the longest time that a test waits for a condition. It is long because only a test that hangs reaches it.
const Deadline = time.Minute

// maxInterval limits the interval between polls, which starts at 1 ms and doubles with each poll. After a slow poll the
// interval is longer, see pauseFactor.
const maxInterval = 100 * time.Millisecond

// pauseFactor makes True sleep at least pauseFactor times as long as the last poll took, but at most 1 s. Polls can be
// expensive: one that lists all processes takes 20 ms of CPU time, and one that starts ibrun takes more.
const pauseFactor = 4

// ErrDeadline is returned if the condition does not hold within Deadline.
var ErrDeadline = errors.New("timed out after " + Deadline.String())

// True calls ok until it returns true. It returns ErrDeadline if that takes longer than Deadline.
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

// Require calls ok until it returns true. It fails the test if that takes longer than Deadline, with a message that
// contains condition.
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
