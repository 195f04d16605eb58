package agent

import (
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/remote"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// run passes events to the core and performs its effects. It returns after the effect Finish, Leave or Done, and after
// this agent has tried to hand over its link. It closes l.over when it returns.
func (l *loop) run() {
	defer close(l.over)
	for {
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
		select {
		case ev := <-l.events:
			ev.handle(l)
			if l.handed {
				return
			}
		case <-l.timer.C:
			l.hear(core.Tick{})
		}
	}
}

// neighborFrame is a message from the parent or a child. If an agent receives Join before it has a job, it hands its
// link over to another agent of the node, and then ends. At the first Launch, the loop takes its settings from the
// message before it passes the message to the core.
type neighborFrame core.Frame

func (l *loop) Frame(ev core.Frame) { l.post(neighborFrame(ev)) }

func (e neighborFrame) handle(l *loop) {
	if m, ok := e.Msg.(wire.Join); ok && l.starter == nil && l.root == nil {
		l.handOver(m)
		l.handed = true
		return
	}
	m, first := e.Msg.(wire.Launch)
	if first = first && l.starter == nil; first {
		if err := l.launched(m.Job); err != nil {
			l.hear(core.LinkLost{Link: core.Up, Cause: err.Error()})
			return
		}
		if m.Job.Launch.Repair {
			l.listenJoins(m.Job.ID, m.First, m.Level-1)
		}
	}
	l.hear(core.Frame(e))
	if first {
		l.traceNode(m.Job.Launch.TraceEvents, m.Nodes.At(0).Host)
	}
}

// perform performs the effect e. It returns true if e is Finish, Leave or Done, because each of them is the last effect
// of a core.
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
		notify = func(text string) { l.Notice(core.Notice{Text: text}) }
	}
	s, err := remote.New(j.Launch, notify)
	l.starter, l.timed, l.jobID, l.lines = s, j.Launch.Timed, j.ID, j.Launch.LineBuffered()
	if l.up != nil {
		l.up.lines.Store(l.lines)
	}
	return err
}
