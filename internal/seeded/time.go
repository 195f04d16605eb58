package seeded

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Time is the virtual time of one schedule. Everything that the schedule does is planned for some
// time. It happens in the order of these times, and what was planned for the same time happens in
// the order of planning.
type Time struct {
	Now   time.Duration
	Rand  *rand.Rand
	Trace func(format string, args ...any) // may be nil
	Fault error                            // the first one that Broken was told of

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

// maxSteps bounds what may happen in a schedule that comes to rest.
const maxSteps = 2_000_000

// NewTime returns the start of time. All chances come from the seeds.
func NewTime(seed1, seed2 uint64, trace func(format string, args ...any)) Time {
	return Time{Rand: rand.New(rand.NewPCG(seed1, seed2)), Trace: trace}
}

// At plans do for a time.
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

// After plans do for a time from now on.
func (t *Time) After(d time.Duration, do func()) { t.At(t.Now+d, do) }

// next does what comes next. It is like heap.Pop, but allocates nothing.
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

// Run goes on until nothing is left to happen. It returns the fault, if there is one, and an error
// if something still happens after last.
func (t *Time) Run(last time.Duration) error {
	for len(t.plans) > 0 && t.Fault == nil {
		t.next()
		if t.steps++; t.steps > maxSteps || t.Now > last {
			return errEndless
		}
	}
	return t.Fault
}

// RunUntil goes on until a time only.
func (t *Time) RunUntil(stop time.Duration) {
	for len(t.plans) > 0 && t.plans[0].at <= stop {
		t.next()
	}
	t.Now = stop
}

// Broken notes a fault, which ends Run.
func (t *Time) Broken(format string, args ...any) {
	if t.Fault == nil {
		t.Fault = fmt.Errorf("at %v: "+format, append([]any{t.Now}, args...)...)
	}
}

// Log tells Trace, with the time.
func (t *Time) Log(format string, args ...any) {
	if t.Trace != nil {
		t.Trace("%12v "+format, append([]any{t.Now}, args...)...)
	}
}

// Chance is true in a share p of all cases.
func (t *Time) Chance(p float64) bool { return p > 0 && t.Rand.Float64() < p }

// UpTo draws a duration below d, or 0 if d is not positive.
func (t *Time) UpTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(t.Rand.Int64N(int64(d)))
}
