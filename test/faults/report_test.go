package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// outcome is what a round showed.
type outcome struct {
	ended    time.Duration // after the fault, or after the interrupt of a job that went on
	cleaned  time.Duration
	wrong    []string
	output   string
	happened string
	missed   bool // what should be hit had ended
	took     time.Duration
}

// tally is a line of the report.
type tally struct {
	rounds, failures, missed int
	ended, cleaned           time.Duration // the slowest
}

// report counts rounds by what was done.
type report struct {
	mu      sync.Mutex
	classes map[string]*tally
}

func (p *report) add(t *testing.T, r *round, o outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.classes == nil {
		p.classes = map[string]*tally{}
	}
	class := r.fault.class
	if r.fault.phase != "" {
		class += ", " + r.fault.phase
	}
	c := p.classes[class]
	if c == nil {
		c = &tally{}
		p.classes[class] = c
	}
	c.rounds++
	if o.missed {
		c.missed++
	}
	if *each {
		fmt.Printf("%s: %s: ended %.1f s, nothing left %.1f s, all %.1f s\n", r, o.happened,
			o.ended.Seconds(), o.cleaned.Seconds(), o.took.Seconds())
	}
	c.ended, c.cleaned = max(c.ended, o.ended), max(c.cleaned, o.cleaned)
	if len(o.wrong) > 0 {
		c.failures++
		t.Errorf("%s\n%s\nwrong: %s\noutput:\n%s", r, o.happened, strings.Join(o.wrong, "\n       "), o.output)
	}
}

func (p *report) rounds() (n int) {
	for _, c := range p.classes {
		n += c.rounds
	}
	return n
}

func (p *report) print() {
	sum := tally{}
	line := func(name string, c *tally) {
		fmt.Printf("%-36s %6d %8d %8d %10.1f s %10.1f s\n", name, c.rounds, c.missed, c.failures,
			c.ended.Seconds(), c.cleaned.Seconds())
	}
	fmt.Printf("%-36s %6s %8s %8s %12s %12s\n", "fault", "rounds", "too late", "failures", "slowest end",
		"nothing left")
	for _, name := range slices.Sorted(maps.Keys(p.classes)) {
		c := p.classes[name]
		line(name, c)
		sum.rounds, sum.missed, sum.failures = sum.rounds+c.rounds, sum.missed+c.missed, sum.failures+c.failures
		sum.ended, sum.cleaned = max(sum.ended, c.ended), max(sum.cleaned, c.cleaned)
	}
	line("all, seed "+fmt.Sprint(*seed), &sum)
}
