package recovery

import (
	"fmt"
	"slices"
	"time"

	"ibrun/internal/job"
)

// Limit is the maximum number of restarts within a period.
type Limit struct {
	Most   int           // maximum number of restarts in any period of length Within; the next failure ends the job
	Within time.Duration // 0 means that Most applies to the whole job
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
	RecallAll     Do = iota // send the recall Serial, which ends all ranks; call Recalled when they have ended
	AnnounceFloor           // send the floor Serial: Epoch is the oldest valid epoch of Span; call Confirmed later
	StartRanks              // start the ranks of Span with the epoch Epoch; call Respawned with the results
	ReportRestart           // tell the user that Span is restarted because Of has failed
	GiveUp                  // end the job, because Span cannot be restarted for the reason Why
)

// Decision is an action that the Director asks the Machine of the root to perform.
type Decision struct {
	Do     Do
	Serial uint32 // in RecallAll: serial number of the recall; in AnnounceFloor and StartRanks: that of the floor
	Span   Span   // ranks that are restarted
	Of     Span   // in ReportRestart and GiveUp: ranks that have failed
	Epoch  uint16 // in AnnounceFloor and StartRanks: first valid epoch of the restarted ranks
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

// round is one restart under way, of some ranks or of all ranks of the job.
type round struct {
	span   Span   // ranks that are restarted
	of     Span   // ranks that have failed
	recall uint32 // serial number of the recall; 0 before it was ordered
	all    bool   // all ranks of the job are restarted
	alive  bool   // in a restart of all ranks: Recalled has not been called yet
	lost   []Span // in a restart of all ranks: ranks of lost agents for which Fenced must still be called
	stage  stage
	serial uint32 // serial number of the floor; 0 before it is announced
	left   uint32 // number of ranks that have not been started yet
}

// Director decides when ranks of the job are restarted, and in which order the steps of a restart happen. It runs at
// the root. newDirector creates it. The zero value allows no restarts.
type Director struct {
	limit  Limit
	open   bool               // the launch is complete, so that messages can be sent to all agents
	serial uint32             // serial number of the last floor; 0 means none
	recall uint32             // serial number of the last recall; 0 means none
	common uint8              // start number of all ranks that are not in starts; grows when all ranks are restarted
	starts map[job.Slot]uint8 // start numbers of ranks that were restarted alone
	rounds []*round           // restarts under way, in the order of the failures
	times  []time.Duration    // times of the restarts that count for the limit, in order
	out    []Decision         // decisions about the current event
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

// Failed records that the ranks of span have failed at the time now, and restarts them if the limit allows it. fenced
// means that none of their processes runs any more, or that their agent ends these processes before it starts the
// ranks. If fenced is false, the caller calls Fenced later.
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

// FailedAll restarts all ranks of the job, which are passed in the parameter all. The reason is that the ranks in the
// parameter of have failed, or that one of them has asked for the restart. lost means that the agent of these ranks is
// lost, too. The caller then calls Fenced for them later.
func (d *Director) FailedAll(now time.Duration, of, all Span, lost bool) []Decision {
	if r := d.under(all); r != nil && r.all && r.stage < starting {
		return d.Failed(now, of, !lost)
	}
	r := &round{span: all, of: of, all: true, alive: true, stage: fencing}
	if lost {
		r.lost = []Span{of}
	}
	for _, old := range d.rounds { // r replaces these restarts, so it waits for the same lost nodes
		if old.stage == fencing {
			r.lost = append(append(r.lost, old.lost...), old.of)
		}
	}
	d.begin(now, r, false)
	return d.done()
}

// begin starts the restart r if the limit allows it, and gives up otherwise. now is the time of the failure. fenced is
// as in Failed.
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

// Recalled records the result of the recall with the number serial. If why is empty, the ranks of all agents that are
// not lost have ended. Otherwise why says why some of them could not be ended.
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

// check ends the stage fencing of a restart of all ranks if Recalled has been called, and Fenced has been called for
// all ranks of lost agents.
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

// drop cancels the restarts under way whose ranks are all in span.
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

// start returns the greatest start number of the ranks of span. The start number of a rank that was never restarted is
// 0, and each restart increases it.
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

// Lost records that the ranks of span are lost for good. It cancels their restarts.
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

// Confirmed records that all agents have confirmed the floors up to the given serial number. It starts the ranks of
// these floors.
func (d *Director) Confirmed(serial uint32) []Decision {
	for _, r := range d.rounds {
		if r.stage == announcing && r.serial > 0 && r.serial <= serial {
			r.stage = starting
			d.do(Decision{Do: StartRanks, Serial: r.serial, Span: r.span, Epoch: job.Epoch(d.start(r.span), 1)})
		}
	}
	return d.done()
}

// Respawned records the result of the StartRanks decision with the number serial for the ranks of span, which are some
// or all ranks of that decision. If why is empty, the ranks run. Otherwise why says why they could not be started.
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

// Recalls reports whether a restart of all ranks is under way in which no rank has been ordered to start yet.
func (d *Director) Recalls() bool {
	return slices.ContainsFunc(d.rounds, func(r *round) bool { return r.all && r.stage < starting })
}

// RollsBack reports whether a restart of all ranks is under way.
func (d *Director) RollsBack() bool {
	return slices.ContainsFunc(d.rounds, func(r *round) bool { return r.all })
}

// Idle reports whether no restart is under way.
func (d *Director) Idle() bool { return len(d.rounds) == 0 }
