package agent

import (
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/remote"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// run passes events to the core and performs its effects until the effect Finish or Done, or until this agent has
// handed over its link. It closes l.over when it returns.
func (l *loop) run() {
	defer close(l.over)
	for {
		select {
		case got := <-l.events:
			l.translate(got)
			if l.handed {
				return
			}
		case <-l.timer.C:
			l.hear(core.Tick{})
		}
		for len(l.pending) > 0 {
			ev := l.pending[0]
			l.pending = l.pending[1:]
			now := time.Since(l.began)
			effects := l.core.Step(now, ev)
			l.tracer.add(now, ev, effects)
			for _, e := range effects {
				if l.perform(e) {
					return
				}
			}
			l.startChildren()
		}
	}
}

// hear appends ev to the events that the core has not processed yet. It ignores a nil ev.
func (l *loop) hear(ev core.Event) {
	if ev != nil {
		l.pending = append(l.pending, ev)
	}
}

// translate handles a value from the channel events. It turns the value into events of the core, if there are any, and
// passes them to hear.
func (l *loop) translate(got any) {
	switch got := got.(type) {
	case sessionUp:
		l.hear(l.connected(got))
	case fromUp:
		if got.link == l.up {
			l.translate(got.event)
		}
	case relink:
		l.relinked(got)
	case core.Frame:
		if m, ok := got.Msg.(wire.Join); ok && l.starter == nil && l.root == nil {
			l.handOver(m)
			l.handed = true
			return
		}
		if m, ok := got.Msg.(wire.Launch); ok && l.starter == nil {
			if err := l.launched(m.Job); err != nil {
				l.hear(core.LinkLost{Link: core.Up, Cause: err.Error()})
				return
			}
			if m.Job.Launch.Repair {
				l.listenJoins(m.Job.ID, m.First, m.Level-1)
			}
			l.hear(got)
			l.traceNode(m.Job.Launch.TraceEvents, m.Nodes.At(0).Host)
			return
		}
		l.hear(got)
	case flow.DaemonExited:
		l.daemonExited(got)
		l.hear(got)
	case core.RankFrame, core.RankExited, core.RankDrained:
		l.fromRanks(got)
	case core.Event:
		l.hear(got)
	default:
		l.fromRanks(got)
	}
}

// perform performs the effect e. It returns true if e is Finish or Done, the last effects of a core.
func (l *loop) perform(e core.Effect) (last bool) {
	switch e := e.(type) {
	case core.Send:
		l.linkTo(e.To).send(e.Msg)
	case core.StartChild:
		l.starting = append(l.starting, e)
	case core.ObserveSessions:
		l.hear(core.SessionsObserved{Ran: l.starter.Ran()})
	case core.JoinChild:
		l.joinChild(e)
	case core.CloseLink:
		l.closeLink(e.Link)
	case core.SetTimer:
		l.timer.Reset(max(0, e.At-time.Since(l.began)))
	case core.Probe:
		l.probe(e.Link)
	case core.Finish:
		return true
	case core.Leave:
		l.leave(e.Signal)
		return true
	case core.Done:
		l.root.outcome = e.Outcome
		return true
	default:
		if !l.performRanks(e) {
			l.root.perform(l, e)
		}
	}
	return false
}

// launched creates the starter of sessions and stores the settings of the job j. It returns an error if the launcher of
// the job is not usable.
func (l *loop) launched(j *job.Job) error {
	var notify func(text string)
	if j.Launch.Verbose {
		notify = func(text string) { l.post(core.Notice{Text: text}) }
	}
	s, err := remote.New(j.Launch, notify)
	l.starter, l.timed, l.jobID, l.lines = s, j.Launch.Timed, j.ID, j.Launch.LineBuffered()
	if l.up != nil {
		l.up.lines.Store(l.lines)
	}
	return err
}
