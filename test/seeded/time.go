package seeded

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Time is the virtual clock of one schedule. At and After plan function calls. Run executes them in the order of their
// times. Calls that are planned for the same time are executed in the order in which they were planned.
type Time struct {
	Now   time.Duration
	Rand  *rand.Rand
	Trace func(format string, args ...any) // receives the lines of Log; may be nil
	Fault error                            // the first fault that Broken recorded, or nil

	plans  []plan // a heap
	serial uint64
	steps  int
}

type plan struct {
	at     time.Duration
	serial uint64
	do     func()
}

func (p *plan) before(o *plan) bool { return p.at < o.at || p.at == o.at && p.serial < o.serial }

var errEndless = errors.New("does not come to rest")

// maxSteps limits the number of function calls that Run executes in a schedule.
const maxSteps = 2_000_000

// NewTime returns a Time whose clock is at 0 and whose random numbers are determined by the seeds.
func NewTime(seed1, seed2 uint64, trace func(format string, args ...any)) Time {
	return Time{Rand: rand.New(rand.NewPCG(seed1, seed2)), Trace: trace}
}

// At plans a call of do at the virtual time at.
func (t *Time) At(at time.Duration, do func()) {
	t.serial++
	t.plans = append(t.plans, plan{at, t.serial, do})
	h := t.plans
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

// After plans a call of do after the virtual duration d from now.
func (t *Time) After(d time.Duration, do func()) { t.At(t.Now+d, do) }

// next removes the earliest planned call from the heap, sets Now to its time and executes it. It does not use heap.Pop,
// which would allocate memory.
func (t *Time) next() {
	h := t.plans
	first, n := h[0], len(h)-1
	h[0], h[n] = h[n], plan{}
	h = h[:n]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < n; c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	t.plans = h
	t.Now = first.at
	first.do()
}

// Run executes the planned calls until none is left or Broken has recorded a fault, and returns that fault. It returns
// errEndless if a call runs later than the time last, or if more than maxSteps calls have run.
func (t *Time) Run(last time.Duration) error {
	for len(t.plans) > 0 && t.Fault == nil {
		t.next()
		if t.steps++; t.steps > maxSteps || t.Now > last {
			return errEndless
		}
	}
	return t.Fault
}

// RunUntil executes the calls that are planned up to and including the time stop, and sets Now to stop.
func (t *Time) RunUntil(stop time.Duration) {
	for len(t.plans) > 0 && t.plans[0].at <= stop {
		t.next()
	}
	t.Now = stop
}

// Broken sets Fault to an error with the current virtual time, unless Fault is set already. Run then returns it.
func (t *Time) Broken(format string, args ...any) {
	if t.Fault == nil {
		t.Fault = fmt.Errorf("at %v: "+format, append([]any{t.Now}, args...)...)
	}
}

// Log passes a line that begins with the current virtual time to Trace. It does nothing if Trace is nil.
func (t *Time) Log(format string, args ...any) {
	if t.Trace != nil {
		t.Trace("%12v "+format, append([]any{t.Now}, args...)...)
	}
}

// Chance returns true with probability p.
func (t *Time) Chance(p float64) bool { return p > 0 && t.Rand.Float64() < p }

// UpTo returns a random duration from 0 up to, but excluding, d. It returns 0 if d is not positive.
func (t *Time) UpTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(t.Rand.Int64N(int64(d)))
}
