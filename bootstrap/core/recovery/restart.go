// Package recovery decides when failed ranks are restarted, and retains messages that an agent may have to send again
// after it has lost its parent or a child. It performs no I/O and sends no message.
//
// A Director at the root controls each restart, because only the root learns of all failures. A floor announces the
// oldest valid epoch of some ranks; messages from older epochs are ignored. The Floors of an agent records which floors
// its parent has sent, and which of them its whole subtree has confirmed. A restart has these steps
// (docs/dev/decisions/0020-restart.md):
//
//	running --Failed--> fencing --Fenced--> announcing --Confirmed--> starting --Respawned--> running
//	            |  all: Recall, Recalled                                 |
//	            +--too often: GiveUp                                     +--it cannot be: GiveUp
//
// An agent retains the messages that it has sent to its parent and those that it has received from it, until another
// agent is known to have them. Each message has an identity, by which a repetition is recognised
// (docs/dev/decisions/0021-tree-repair.md):
//
//	sent to the parent --retained--> the root has handled it: released
//	                                 link lost --new link--> sent again; the root handles each identity once
//	received from the parent --retained--> a new child reports what it has --> the child gets the rest
package recovery

import (
	"fmt"
	"slices"
	"time"

	"ibrun/internal/job"
)

// Policy is how often ranks start again.
type Policy struct {
	Most   int           // restarts within any time Within; the next failure ends the job
	Within time.Duration // 0: the whole job
}

// Span is the ranks [First, First+Count).
type Span struct {
	First job.Slot
	Count uint32
}

// End is the slot after the last one.
func (s Span) End() job.Slot { return s.First + job.Slot(s.Count) }

// Has reports whether a rank is of the span.
func (s Span) Has(rank job.Slot) bool { return rank >= s.First && uint32(rank-s.First) < s.Count }

// Do is what an effect asks for.
type Do uint8

const (
	Recall   Do = iota // end all ranks, as the recall of number Serial; Recalled answers
	Announce           // tell all agents that Span counts from Epoch on, as the floor of number Serial
	Start              // start Span as Epoch
	Report             // tell the user that Span starts again, for the Number-th time of all, because of Of
	GiveUp             // end the job: Span has failed and does not start again, because of Why
)

// Effect is something that the root must do.
type Effect struct {
	Do     Do
	Serial uint32
	Span   Span
	Of     Span // of GiveUp and Report: what has failed
	Epoch  uint16
	Number int
	Why    string
}

type stage uint8

const (
	running stage = iota
	fencing
	announcing
	starting
)

// round is one restart under way.
type round struct {
	span   Span
	of     Span   // what has failed
	recall uint32 // serial of the order that all ranks end, once it is given; 0: not yet
	all    bool
	alive  bool // of all: not all are known to have ended
	lost   []Span
	stage  stage
	serial uint32 // of the floor; 0: not announced
	left   uint32 // ranks that have not been started yet
}

// Director is the root's part.
type Director struct {
	policy Policy
	open   bool // the launch is complete
	serial uint32
	recall uint32
	common uint8              // how often all ranks were restarted together, or more
	starts map[job.Slot]uint8 // of ranks that were restarted
	rounds []*round           // in the order of their failures
	times  []time.Duration    // of the failures that count, in order
	out    []Effect
}

// New makes the director of a job.
func New(policy Policy) Director {
	return Director{policy: policy, starts: map[job.Slot]uint8{}}
}

func (d *Director) do(e Effect) { d.out = append(d.out, e) }

// done returns what was done since the last event.
func (d *Director) done() []Effect {
	out := d.out
	d.out = d.out[:0]
	return out
}

// Opened says that the launch is complete: floors can be announced.
func (d *Director) Opened() []Effect {
	d.open = true
	d.announce()
	return d.done()
}

// Failed says that ranks have failed. Fenced: nothing of them runs any more, or the agent that is
// ordered to start them makes sure of it first; otherwise Fenced says so later.
func (d *Director) Failed(now time.Duration, span Span, fenced bool) []Effect {
	if r := d.under(span); r != nil && r.stage < starting && r.span.First <= span.First && span.End() <= r.span.End() {
		if !fenced { // announced or not: it is announced again
			r.stage, r.serial = fencing, 0
			if r.all {
				r.lost = append(r.lost, span)
			}
		}
		return d.done() // its restart has not begun yet
	}
	d.begin(now, &round{span: span, of: span, stage: announcing}, fenced)
	return d.done()
}

// FailedAll says that ranks have failed, or that one asks for it, and all start again. Lost: an
// agent was lost with them; Fenced says when nothing of them runs.
func (d *Director) FailedAll(now time.Duration, of, all Span, lost bool) []Effect {
	if r := d.under(all); r != nil && r.all && r.stage < starting {
		return d.Failed(now, of, !lost)
	}
	r := &round{span: all, of: of, all: true, alive: true, stage: fencing}
	if lost {
		r.lost = []Span{of}
	}
	for _, old := range d.rounds { // nodes that are being replaced are not there yet
		if old.stage == fencing {
			r.lost = append(append(r.lost, old.lost...), old.of)
		}
	}
	d.begin(now, r, false)
	return d.done()
}

// begin begins a restart, if there may be one more.
func (d *Director) begin(now time.Duration, r *round, fenced bool) {
	if why := d.refused(now, r.span); why != "" {
		d.do(Effect{Do: GiveUp, Span: r.span, Of: r.of, Why: why})
		return
	}
	d.times = append(d.times, now)
	d.drop(r.span)
	if r.left = r.span.Count; !fenced {
		r.stage = fencing
	}
	d.rounds = append(d.rounds, r)
	d.do(Effect{Do: Report, Span: r.span, Of: r.of, Number: len(d.times)})
	d.announce()
}

// Recalled says that all agents that are left have ended their ranks, as ordered; or why one
// cannot.
func (d *Director) Recalled(serial uint32, why string) []Effect {
	for _, r := range d.rounds {
		if !r.all || r.recall != serial || r.stage != fencing {
			continue
		}
		if why != "" {
			d.do(Effect{Do: GiveUp, Span: r.span, Of: r.of, Why: why})
			return d.done()
		}
		r.alive = false
		r.check()
	}
	d.announce()
	return d.done()
}

// check ends the fencing of all when nothing runs and no node is missing.
func (r *round) check() {
	if r.stage == fencing && !r.alive && len(r.lost) == 0 {
		r.stage = announcing
	}
}

// under is the newest restart under way that has ranks of a span.
func (d *Director) under(span Span) *round {
	for _, r := range slices.Backward(d.rounds) {
		if span.First < r.span.End() && r.span.First < span.End() {
			return r
		}
	}
	return nil
}

// drop forgets restarts that a new one of the same ranks takes the place of.
func (d *Director) drop(span Span) {
	d.rounds = slices.DeleteFunc(d.rounds, func(r *round) bool {
		return r.span.First >= span.First && r.span.End() <= span.End()
	})
}

// refused is why ranks may not start again, or empty.
func (d *Director) refused(now time.Duration, span Span) string {
	p := d.policy
	if p.Within > 0 {
		d.times = slices.DeleteFunc(d.times, func(at time.Duration) bool { return now-at >= p.Within })
	}
	switch {
	case len(d.times) >= p.Most && p.Within > 0:
		return fmt.Sprintf("%s in %v, which is the most (--max-restarts)", restarts(len(d.times)), p.Within)
	case len(d.times) >= p.Most:
		return fmt.Sprintf("after %s, which is the most (--max-restarts)", restarts(len(d.times)))
	case d.start(span) == job.MaxStart:
		return fmt.Sprintf("after %s, which is the most of one rank", restarts(job.MaxStart))
	}
	return ""
}

func restarts(n int) string {
	if n == 1 {
		return "1 restart"
	}
	return fmt.Sprintf("%d restarts", n)
}

// start is the highest number of a start of some ranks.
func (d *Director) start(span Span) (most uint8) {
	most = d.common
	for rank, start := range d.starts {
		if span.Has(rank) {
			most = max(most, start)
		}
	}
	return most
}

// Fenced says that nothing of the old start of some ranks runs.
func (d *Director) Fenced(span Span) []Effect {
	for _, r := range d.rounds {
		if r.all {
			r.lost = slices.DeleteFunc(r.lost, func(lost Span) bool { return lost == span })
			r.check()
			continue
		}
		if r.stage == fencing && r.span.First >= span.First && r.span.End() <= span.End() {
			r.stage = announcing
		}
	}
	d.announce()
	return d.done()
}

// Lost says that ranks are lost with their node, and do not start again: what was to start them is
// forgotten.
func (d *Director) Lost(span Span) { d.drop(span) }

// announce announces what can be.
func (d *Director) announce() {
	for _, r := range d.rounds {
		if d.open && r.all && r.recall == 0 {
			d.recall++
			r.recall = d.recall
			d.do(Effect{Do: Recall, Serial: r.recall, Span: r.span})
		}
		if !d.open || r.stage != announcing || r.serial > 0 {
			continue
		}
		d.serial++
		r.serial = d.serial
		start := d.start(r.span) + 1
		if r.all {
			d.common = start
			clear(d.starts)
		} else {
			for i := range r.span.Count {
				d.starts[r.span.First+job.Slot(i)] = start
			}
		}
		d.do(Effect{Do: Announce, Serial: r.serial, Span: r.span, Epoch: job.Epoch(start, 1)})
	}
}

// Confirmed says that all agents have the floors up to a serial.
func (d *Director) Confirmed(serial uint32) []Effect {
	for _, r := range d.rounds {
		if r.stage == announcing && r.serial > 0 && r.serial <= serial {
			r.stage = starting
			d.do(Effect{Do: Start, Serial: r.serial, Span: r.span, Epoch: job.Epoch(d.start(r.span), 1)})
		}
	}
	return d.done()
}

// Respawned says what came of the order to start ranks: why they cannot be started, or nothing, and
// they run.
func (d *Director) Respawned(serial uint32, span Span, why string) []Effect {
	i := slices.IndexFunc(d.rounds, func(r *round) bool { return r.serial == serial && r.stage == starting })
	if i < 0 {
		return nil // another restart has taken its place
	}
	if why != "" {
		d.do(Effect{Do: GiveUp, Span: span, Of: span, Why: why})
		return d.done()
	}
	r := d.rounds[i]
	if r.left -= min(span.Count, r.left); r.left == 0 {
		d.rounds = slices.Delete(d.rounds, i, i+1)
	}
	return nil
}

// Recalls reports whether all ranks are ended, to start again.
func (d *Director) Recalls() bool {
	return slices.ContainsFunc(d.rounds, func(r *round) bool { return r.all && r.stage < starting })
}

// RollsBack reports whether all ranks are ended or started again.
func (d *Director) RollsBack() bool {
	return slices.ContainsFunc(d.rounds, func(r *round) bool { return r.all })
}

// Idle reports whether no restart is under way.
func (d *Director) Idle() bool { return len(d.rounds) == 0 }
