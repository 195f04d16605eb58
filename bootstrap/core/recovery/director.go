package recovery

import (
	"fmt"
	"slices"
	"time"

	"ibrun/internal/job"
)

// Limit is the maximum number of restarts within a period.
type Limit struct {
	Most   int           // maximum number of restarts in any period of length Within; one more failure ends the job
	Within time.Duration // 0 means the duration of the job
}

// Span represents the ranks [First, First+Count).
type Span struct {
	First job.Slot
	Count uint32
}

// End returns the slot after the last slot of s.
func (s Span) End() job.Slot { return s.First + job.Slot(s.Count) }

// Has reports whether s contains rank.
func (s Span) Has(rank job.Slot) bool { return rank >= s.First && uint32(rank-s.First) < s.Count }

// Do is the action that a Decision asks for.
type Do uint8

const (
	RecallAll     Do = iota // send the recall Serial, which ends all ranks, and call Recalled when they have ended
	AnnounceFloor           // send the floor Serial with Epoch as the oldest valid epoch of Span, then call Confirmed
	StartRanks              // start the ranks of Span with the epoch Epoch, and call Respawned
	ReportRestart           // tell the user that Span is restarted because Of has failed
	GiveUp                  // end the job, because Span cannot be restarted for the reason Why
)

// Decision is an action that the Director asks the Machine of the root to perform.
type Decision struct {
	Do     Do
	Serial uint32 // serial number of a recall or of a floor
	Span   Span   // ranks that are restarted
	Of     Span   // in ReportRestart and GiveUp: ranks that have failed
	Epoch  uint16
	Number int    // in ReportRestart: number of restarts that count for the Limit
	Why    string // in GiveUp: reason for the user
}

// stage is a step of a restart, as in the diagram in the package documentation.
type stage uint8

const (
	running stage = iota
	fencing
	announcing
	starting
)

// round is one restart under way.
type round struct {
	span   Span   // ranks that are restarted
	of     Span   // ranks that have failed
	recall uint32 // serial number of the recall; 0 before it was ordered
	all    bool   // all ranks of the job are restarted
	alive  bool   // all is set, and Recalled has not been called yet
	lost   []Span // all is set, and Fenced has not been called yet for these ranks of lost agents
	stage  stage
	serial uint32 // serial number of the floor; 0 before it is announced
	left   uint32 // number of ranks that have not been started yet
}

// Director controls the restarts of a job. It runs at the root and is created by newDirector. The zero value allows no
// restarts.
type Director struct {
	limit  Limit
	open   bool               // the launch is complete
	serial uint32             // serial number of the last floor
	recall uint32             // serial number of the last recall
	common uint8              // start number of all ranks that are not in starts; grows when all ranks are restarted
	starts map[job.Slot]uint8 // start numbers of ranks that were restarted alone
	rounds []*round           // restarts under way, in the order of the failures
	times  []time.Duration    // times of the restarts that count for the limit, in order
	out    []Decision
}

// newDirector returns the Director of a job with the given limit.
func newDirector(limit Limit) Director {
	return Director{limit: limit, starts: map[job.Slot]uint8{}}
}

func (d *Director) do(e Decision) { d.out = append(d.out, e) }

// done returns the decisions about the current event. They are valid until the next call of a method of d.
func (d *Director) done() []Decision {
	out := d.out
	d.out = d.out[:0]
	return out
}

// Opened records that the launch is complete, so that recalls and floors can be sent.
func (d *Director) Opened() []Decision {
	d.open = true
	d.announce()
	return d.done()
}

// Failed records that the ranks of span have failed at the time now, and restarts them. fenced means that none of their
// processes runs any more, or that the agent that restarts them will first make sure of this. If fenced is false, the
// caller calls Fenced later.
func (d *Director) Failed(now time.Duration, span Span, fenced bool) []Decision {
	if r := d.under(span); r != nil && r.stage < starting && r.span.First <= span.First && span.End() <= r.span.End() {
		if !fenced { // if the floor of r was announced before, announce a new floor later
			r.stage, r.serial = fencing, 0
			if r.all {
				r.lost = append(r.lost, span)
			}
		}
		return d.done() // the restart under way will also start these ranks
	}
	d.begin(now, &round{span: span, of: span, stage: announcing}, fenced)
	return d.done()
}

// FailedAll restarts the ranks all, because the ranks of have failed or one of them asks for a restart. all contains
// every rank of the job. lost means that the agent of the failed ranks is lost too. The caller then calls Fenced later.
func (d *Director) FailedAll(now time.Duration, of, all Span, lost bool) []Decision {
	if r := d.under(all); r != nil && r.all && r.stage < starting {
		return d.Failed(now, of, !lost)
	}
	r := &round{span: all, of: of, all: true, alive: true, stage: fencing}
	if lost {
		r.lost = []Span{of}
	}
	for _, old := range d.rounds { // also wait for nodes that are being replaced
		if old.stage == fencing {
			r.lost = append(append(r.lost, old.lost...), old.of)
		}
	}
	d.begin(now, r, false)
	return d.done()
}

// begin starts the restart r if the limit allows it, and gives up otherwise. now is the time of the failure.
func (d *Director) begin(now time.Duration, r *round, fenced bool) {
	if why := d.refused(now, r.span); why != "" {
		d.do(Decision{Do: GiveUp, Span: r.span, Of: r.of, Why: why})
		return
	}
	d.times = append(d.times, now)
	d.drop(r.span)
	if r.left = r.span.Count; !fenced {
		r.stage = fencing
	}
	d.rounds = append(d.rounds, r)
	d.do(Decision{Do: ReportRestart, Span: r.span, Of: r.of, Number: len(d.times)})
	d.announce()
}

// Recalled records that all remaining agents have ended their ranks for the recall with the number serial. If an agent
// could not end its ranks, why contains the reason. If all ranks have ended, why is empty.
func (d *Director) Recalled(serial uint32, why string) []Decision {
	for _, r := range d.rounds {
		if !r.all || r.recall != serial || r.stage != fencing {
			continue
		}
		if why != "" {
			d.do(Decision{Do: GiveUp, Span: r.span, Of: r.of, Why: why})
			return d.done()
		}
		r.alive = false
		r.check()
	}
	d.announce()
	return d.done()
}

// check ends the stage fencing of a restart of all ranks when Recalled was called, and Fenced was called for each span
// in lost.
func (r *round) check() {
	if r.stage == fencing && !r.alive && len(r.lost) == 0 {
		r.stage = announcing
	}
}

// under returns the newest restart under way that includes a rank of span, or nil.
func (d *Director) under(span Span) *round {
	for _, r := range slices.Backward(d.rounds) {
		if span.First < r.span.End() && r.span.First < span.End() {
			return r
		}
	}
	return nil
}

// drop removes the restarts under way whose ranks are all in span.
func (d *Director) drop(span Span) {
	d.rounds = slices.DeleteFunc(d.rounds, func(r *round) bool {
		return r.span.First >= span.First && r.span.End() <= span.End()
	})
}

// refused returns the reason why span must not be restarted at the time now, or "" if it may.
func (d *Director) refused(now time.Duration, span Span) string {
	p := d.limit
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

// restarts returns "1 restart" or "N restarts".
func restarts(n int) string {
	if n == 1 {
		return "1 restart"
	}
	return fmt.Sprintf("%d restarts", n)
}

// start returns the greatest start number of the ranks of span, which is the number of times that a rank was restarted.
func (d *Director) start(span Span) (most uint8) {
	most = d.common
	for rank, start := range d.starts {
		if span.Has(rank) {
			most = max(most, start)
		}
	}
	return most
}

// Fenced records that no old process of the ranks of span runs any more.
func (d *Director) Fenced(span Span) []Decision {
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

// Lost records that the ranks of span are lost with their node and are not restarted. It cancels their restarts.
func (d *Director) Lost(span Span) { d.drop(span) }

// announce sends all recalls and floors that are due. Before the launch is complete, it sends none.
func (d *Director) announce() {
	for _, r := range d.rounds {
		if d.open && r.all && r.recall == 0 {
			d.recall++
			r.recall = d.recall
			d.do(Decision{Do: RecallAll, Serial: r.recall, Span: r.span})
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
		d.do(Decision{Do: AnnounceFloor, Serial: r.serial, Span: r.span, Epoch: job.Epoch(start, 1)})
	}
}

// Confirmed records that all agents have confirmed the floors up to the given serial number, and starts their ranks.
func (d *Director) Confirmed(serial uint32) []Decision {
	for _, r := range d.rounds {
		if r.stage == announcing && r.serial > 0 && r.serial <= serial {
			r.stage = starting
			d.do(Decision{Do: StartRanks, Serial: r.serial, Span: r.span, Epoch: job.Epoch(d.start(r.span), 1)})
		}
	}
	return d.done()
}

// Respawned records the result of the StartRanks decision with the number serial for the ranks of span. These are some
// or all ranks of the decision. If the ranks run, why is empty. If they cannot be started, why contains the reason.
func (d *Director) Respawned(serial uint32, span Span, why string) []Decision {
	i := slices.IndexFunc(d.rounds, func(r *round) bool { return r.serial == serial && r.stage == starting })
	if i < 0 {
		return nil // a newer restart has replaced the one with this serial number
	}
	if why != "" {
		d.do(Decision{Do: GiveUp, Span: span, Of: span, Why: why})
		return d.done()
	}
	r := d.rounds[i]
	if r.left -= min(span.Count, r.left); r.left == 0 {
		d.rounds = slices.Delete(d.rounds, i, i+1)
	}
	return nil
}

// Recalls reports whether a restart of all ranks is under way that has not started any rank yet.
func (d *Director) Recalls() bool {
	return slices.ContainsFunc(d.rounds, func(r *round) bool { return r.all && r.stage < starting })
}

// RollsBack reports whether a restart of all ranks is under way.
func (d *Director) RollsBack() bool {
	return slices.ContainsFunc(d.rounds, func(r *round) bool { return r.all })
}

// Idle reports whether no restart is under way.
func (d *Director) Idle() bool { return len(d.rounds) == 0 }
