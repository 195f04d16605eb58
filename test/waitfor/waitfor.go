// Package waitfor polls until a condition holds. It is for tests alone.
//
// A test that looks only once at something that is about to change has a race. Where a test cannot wait for an event,
// such as a message on a channel or the end of a process, it uses this package. No other code of unlabelled tests may
// read a clock.
package waitfor

import (
	"errors"
	"time"
)

// Deadline limits each wait of a test. It is long, because it only ends a test that hangs.
const Deadline = time.Minute

// maxInterval is the longest time between two polls that themselves take no time.
const maxInterval = 100 * time.Millisecond

// pause is the least time between two polls, as a multiple of the time that a poll takes. A poll that looks at all
// processes takes 20 ms of CPU time, and one that starts ibrun more, so tests must not poll all the time.
const pause = 4

// ErrDeadline is returned if the condition does not hold within Deadline.
var ErrDeadline = errors.New("timed out after " + Deadline.String())

// True polls until ok returns true, and returns ErrDeadline if it does not within Deadline.
func True(ok func() bool) error {
	interval := time.Millisecond
	for began, end := time.Now(), time.Now().Add(Deadline); !ok(); began = time.Now() {
		if time.Now().After(end) {
			return ErrDeadline
		}
		time.Sleep(max(interval, min(pause*time.Since(began), time.Second)))
		interval = min(2*interval, maxInterval)
	}
	return nil
}

// TB is the part of testing.TB that this package uses.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Require polls until ok returns true, and fails the test if it does not within Deadline.
// What names the condition in the failure.
func Require(t TB, what string, ok func() bool) {
	t.Helper()
	if err := True(ok); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Receive returns the next value of c, and fails the test if there is none within Deadline or c is closed.
func Receive[V any](t TB, c <-chan V) (v V) {
	t.Helper()
	select {
	case v, ok := <-c:
		if !ok {
			t.Fatalf("the channel is closed")
		}
		return v
	case <-time.After(Deadline):
		t.Fatalf("nothing received: %v", ErrDeadline)
		return v
	}
}

// Closed waits until c is closed, and fails the test if it is not within Deadline or has a value.
func Closed[V any](t TB, c <-chan V) {
	t.Helper()
	select {
	case v, ok := <-c:
		if ok {
			t.Fatalf("received %v, want a closed channel", v)
		}
	case <-time.After(Deadline):
		t.Fatalf("the channel is not closed: %v", ErrDeadline)
	}
}
