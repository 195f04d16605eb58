package sim

import (
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// audit holds each step of each agent against the invariants of
// docs/dev/decisions/0024-recorder-and-simulation.md, and makes a hash of the whole run.
type audit struct {
	w     *World
	of    map[*agent]*record
	wrong []string
	trace interface {
		io.Writer
		Sum64() uint64
	}
	printLine func(line string) // nil: nobody reads the trace
}

// record is what an agent has done so far.
type record struct {
	forks, exits int
	ending       bool // it has killed its ranks, or has finished
	ended        map[core.Link]bool
	timer        time.Duration // that is set; 0: none
	credit       map[core.Link]int
	received     map[core.Link]time.Duration // since when a link is silent
	last         time.Duration               // of its steps
}

// silentMost is when a link that is cut must have been given up: 10 s, a look each second, and the
// answer of a probe.
const silentMost = 13 * time.Second

// sigCont is SIGCONT, by its Linux number.
const sigCont = 18

func newAudit(w *World, printLine func(string)) *audit {
	return &audit{w: w, of: map[*agent]*record{}, trace: fnv.New64a(), printLine: printLine}
}

func (d *audit) fail(a *agent, format string, args ...any) {
	d.wrong = append(d.wrong, fmt.Sprintf("at %v agent %s: %s", d.w.now, a.host, fmt.Sprintf(format, args...)))
}

// stepped is called after each step.
func (d *audit) stepped(a *agent, ev core.Event, effects []core.Effect) {
	r := d.of[a]
	if r == nil {
		r = &record{ended: map[core.Link]bool{}, credit: map[core.Link]int{}, received: map[core.Link]time.Duration{}}
		d.of[a] = r
	}
	if d.printLine != nil {
		for _, line := range traceOf(d.w.now, ev, effects) {
			d.printLine(a.host + " " + line)
		}
	}
	d.write(a, "->", ev)
	d.silent(a, r)
	d.happened(a, r, ev)
	for _, e := range effects {
		d.write(a, "  ", e)
		d.did(a, r, e)
	}
	if !r.ending && r.timer == 0 && a.core != nil && (a != d.w.root || r.exits == 0) {
		d.fail(a, "it has neighbours and no timer after %T", ev)
	}
}

func (d *audit) write(a *agent, mark string, v any) {
	line := fmt.Sprintf("%d %s %s %T", d.w.now, a.host, mark, v)
	switch v := v.(type) {
	case core.Frame:
		line += fmt.Sprintf(" %d %x", v.From, frame.Append(nil, v.Msg))
	case core.Send:
		line += fmt.Sprintf(" %d %x", v.To, frame.Append(nil, v.Msg))
	case core.Probe, core.Probed, core.LinkLost, core.CloseLink, core.SweepNode, core.ChildFailed:
		line += fmt.Sprintf(" %+v", v)
	}
	fmt.Fprintln(d.trace, line)
}

// happened takes in what an event tells an agent.
func (d *audit) happened(a *agent, r *record, ev core.Event) {
	switch ev := ev.(type) {
	case core.LinkLost:
		r.ended[ev.Link] = true
	case core.Relinked:
		r.ended[core.Up], r.exits, r.received[core.Up] = false, 0, d.w.now
	case core.JoinRefused:
		r.ended[ev.Child] = true
	case core.ChildFailed:
		r.ended[ev.Child] = true
	case core.Tick:
		r.timer = 0
	case core.Frame:
		r.received[ev.From] = d.w.now
		switch m := ev.Msg.(type) {
		case wire.Launch:
			r.credit[core.Up] += int(m.Credit)
		case wire.Grant:
			r.credit[core.Up] += int(m.N)
		case wire.Resume:
			r.credit[core.Up] = int(m.Credit)
		case wire.Signal:
			r.resumed(m.Number, d.w.now)
		}
	case core.Interrupted:
		r.resumed(ev.Signal, d.w.now)
	}
}

// resumed begins all silence anew when a job that was stopped goes on: the agent blames nobody for
// what it did not receive meanwhile.
func (r *record) resumed(signal uint8, now time.Duration) {
	if signal != sigCont {
		return
	}
	for l := range r.received {
		r.received[l] = now
	}
}

// silent holds an agent to what it should have noticed. It may have been late itself.
func (d *audit) silent(a *agent, r *record) {
	late := d.w.now - r.last
	r.last = d.w.now
	for l, received := range r.received {
		if late > time.Second {
			received += late
			r.received[l] = received
		}
		below := a
		if l != core.Up {
			below = a.children[l]
		}
		if !r.ended[l] && below != nil && d.w.isCut(below) && d.w.now-received > silentMost {
			d.fail(a, "link %d is cut and silent since %v, and is not given up", l, received)
		}
	}
}

func (d *audit) did(a *agent, r *record, e core.Effect) {
	switch e := e.(type) {
	case core.Send:
		d.sent(a, r, e)
	case core.CloseLink:
		r.ended[e.Link] = true
	case core.SetTimer:
		if r.timer = e.At; e.At < d.w.now {
			d.fail(a, "a timer for %v, which has passed", e.At)
		}
	case core.Fork:
		if r.forks++; r.forks > 1 || r.ending {
			d.fail(a, "ranks are started twice, or after the end")
		}
	case core.Refork:
		if r.ending {
			d.fail(a, "rank %d is started again after the end", e.Rank)
		}
	case core.KillRanks, core.Finish, core.Done:
		r.ending = true
	}
}

func (d *audit) sent(a *agent, r *record, e core.Send) {
	if r.ended[e.To] {
		d.fail(a, "%v is sent on link %d, which has ended", e.Msg, e.To)
	}
	if r.exits > 0 && e.To == core.Up && !d.w.cfg.Job.Launch.Repair {
		d.fail(a, "%v is sent after Exit", e.Msg)
	}
	switch m := e.Msg.(type) {
	case wire.Exit:
		r.exits++
	case wire.Chunk:
		if r.credit[core.Up] -= len(m.Output.Data); r.credit[core.Up] < 0 {
			d.fail(a, "output beyond its credit by %d bytes", -r.credit[core.Up])
		}
	case wire.Output:
		if r.credit[core.Up] -= len(m.Data); r.credit[core.Up] < 0 {
			d.fail(a, "output beyond its credit by %d bytes", -r.credit[core.Up])
		}
	}
}

// ended holds the outcome against what the run was: every rank is accounted for once.
func (d *audit) ended(lossy bool) {
	o := d.w.Outcome
	if o == nil {
		d.wrong = append(d.wrong, "the root is not done")
		return
	}
	if o.Code == -1 {
		return // it was killed, and tells nothing
	}
	next := job.Slot(0)
	bad := false
	for _, run := range o.Runs {
		if run.First != next || run.Count == 0 {
			d.wrong = append(d.wrong, fmt.Sprintf("ranks from %d on are accounted for twice, or not: %v", next, o.Runs))
		}
		next = run.First + job.Slot(run.Count)
		bad = bad || !run.Status.OK()
	}
	if size := d.size(); uint32(next) != size {
		d.wrong = append(d.wrong, fmt.Sprintf("%d of %d ranks are accounted for", next, size))
	}
	if bad && o.Code == 0 {
		d.wrong = append(d.wrong, fmt.Sprintf("exit code 0, and ranks failed: %v", o.Runs))
	}
	if lossy && o.Code == 0 {
		d.wrong = append(d.wrong, "exit code 0, and an agent was lost before its ranks had ended")
	}
	if o.Code != 0 && o.Cause == core.CauseNone && !bad {
		d.wrong = append(d.wrong, fmt.Sprintf("exit code %d for no reason", o.Code))
	}
}

// size is how many ranks the job has in the end: a job that may do without dead nodes has fewer.
func (d *audit) size() uint32 {
	size := d.w.cfg.Job.Size
	if !d.w.Outcome.AllStarted {
		return size // nobody was numbered anew
	}
	for _, r := range d.w.Reports {
		if n, ok := r.(rankwire.Notice); ok && strings.Contains(n.Text, "the job goes on with") {
			size -= d.w.cfg.Job.Size / d.w.cfg.Job.Nodes
		}
	}
	return size
}
