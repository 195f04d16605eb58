package agent

import (
	"context"
	"errors"
	"io"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/remote"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/internal/job"
)

// startChildren opens the sessions of the children in l.starting. If the launcher is a resource manager, one job step
// of it may carry several of the sessions.
func (l *loop) startChildren() {
	targets := make([]*remote.Target, len(l.starting))
	for i, e := range l.starting {
		targets[i] = &remote.Target{Host: e.Node.Host, User: e.Node.User, Local: e.Local, Most: e.Most}
	}
	if len(targets) > 1 {
		l.starter.Share(targets)
	}
	for i, e := range l.starting {
		l.startChild(e, *targets[i])
	}
	l.starting = l.starting[:0]
}

// startChild opens the session to the child e.Child on target, and reports each step of it as core.ChildPhase.
func (l *loop) startChild(e core.StartChild, target remote.Target) {
	l.openSession(e.Child, func(ctx context.Context) (*remote.Session, error) {
		return l.starter.Start(ctx, target, func(p remote.Phase) {
			l.ChildPhase(core.ChildPhase{Child: e.Child, Phase: string(p), Moment: moment(p)})
		})
	})
}

// openSession calls open in a new goroutine, which reports the session or the error to the loop.
func (l *loop) openSession(child core.Link, open func(context.Context) (*remote.Session, error)) {
	ctx, cancel := context.WithCancel(l.ctx)
	l.sessions[child] = &session{cancel: cancel}
	l.cores.begin()
	l.helpers.Go(func() {
		defer l.cores.end()
		s, err := open(ctx)
		switch {
		case errors.Is(err, errJoinRefused):
			l.JoinRefused(core.JoinRefused{Child: child})
		case err != nil:
			l.ChildFailed(failed(child, err))
		case !l.SessionUp(child, s):
			s.Kill()
		}
	})
}

// request opens a session to target, sends order to the agent, and returns the first message of type T from the agent.
// If the session could not be opened, s is nil. If it failed later, request has killed and released s.
func request[T frame.Message](ctx context.Context, l *loop, target remote.Target, order frame.Message) (
	s *remote.Session, answer T, err error) {
	if s, err = l.starter.Start(ctx, target, func(remote.Phase) {}); err != nil {
		return nil, answer, err
	}
	stop := context.AfterFunc(ctx, s.Kill)
	defer stop()
	frames := wire.Vocabulary.NewReader(s.Stdout, frame.Child)
	if l.lines {
		frames.SkipNewlines()
	}
	_, err = s.Stdin.Write(frame.Append(nil, order))
	for err == nil {
		var m frame.Message
		m, err = frames.Next()
		if answer, ok := m.(T); ok {
			return s, answer, nil
		}
	}
	s.Kill()
	s.Release()
	return s, answer, err
}

// sessionUp is the event that the session to a child is open.
type sessionUp struct {
	child   core.Link
	session *remote.Session
}

func (l *loop) SessionUp(child core.Link, s *remote.Session) bool { return l.post(sessionUp{child, s}) }

func (e sessionUp) handle(l *loop) { l.hear(l.connected(e)) }

// connected starts the reader and the writer of an open session, and returns core.ChildUp for the core. If closeLink
// was called for the child before, connected kills the session and returns nil.
func (l *loop) connected(up sessionUp) core.Event {
	s := l.sessions[up.child]
	if s.cancel == nil {
		up.session.Kill()
		return nil
	}
	s.remote, s.link = up.session, newLink()
	go s.link.write(up.session.Stdin)
	go func() {
		err := read(up.session.Stdout, up.child, l.lines, l)
		cause, tail := l.ended(up.session, err)
		up.session.Release()
		l.LinkLost(core.LinkLost{Link: up.child, Cause: cause, Tail: tail})
	}()
	cpu := up.session.CPU()
	ev := core.ChildUp{Child: up.child, Spent: cpu + l.cores.spent()}
	if l.timed {
		ev.CPU = cpu
	}
	return ev
}

// causeWait limits how long ended waits for the end of a session after the end of its output. The exit status of the
// session tells why the link was lost.
const causeWait = 500 * time.Millisecond

// ended returns why the link of the session s was lost, and the last lines that the session printed. The argument err
// is the error that ended the reading from s. Unless err is io.EOF, ended kills the session.
func (l *loop) ended(s *remote.Session, err error) (cause, tail string) {
	if err != io.EOF {
		s.Kill()
		return err.Error(), s.Tail()
	}
	select {
	case <-s.Done():
	case <-time.After(causeWait):
	}
	return s.Cause(), s.Tail()
}

// closeLink closes the link k. If k leads to a child, closeLink also ends the child's session.
func (l *loop) closeLink(k core.Link) {
	if k == core.Up {
		l.cutOff = true
		l.up.giveUp() // the stream itself stays open until this process ends or a new parent is linked
		return
	}
	s := l.sessions[k]
	if s == nil || s.cancel == nil {
		return
	}
	s.cancel()
	s.cancel = nil
	if s.remote != nil {
		s.link.finish()
		s.remote.Kill()
	}
}

// probe reads the state of the TCP connection of the link k from the kernel in a new goroutine, which reports it as
// core.Probed.
func (l *loop) probe(k core.Link) {
	s := l.sessions[k]
	go func() {
		var evidence remote.Evidence
		known := false
		switch {
		case k == core.Up:
			evidence, known = remote.UpstreamEvidence()
		case s != nil && s.remote != nil:
			evidence, known = s.remote.Evidence()
		}
		l.Probed(core.Probed{Link: k, Known: known, Resent: evidence.Resent, Waits: evidence.Waits,
			Acked: evidence.Acked})
	}()
}

// moment returns the moment of the launch at which a session enters the phase p. It returns job.Moments if no moment is
// recorded for p.
func moment(p remote.Phase) job.Moment {
	switch p {
	case remote.Connect:
		return job.Connecting
	case remote.Version, remote.KeyExchange, remote.Authenticate:
		return job.Authenticating
	case remote.Open, remote.Begin:
		return job.Beginning
	case remote.Ship:
		return job.Shipping
	case remote.Agent:
		return job.AgentAnswered
	}
	return job.Moments
}

// failed returns the event that the session to child could not be opened because of err.
func failed(child core.Link, err error) core.ChildFailed {
	f := core.ChildFailed{Child: child, Phase: "start", Cause: err.Error()}
	var e *remote.Error
	if errors.As(err, &e) {
		f.Phase, f.Cause, f.Tail = string(e.Phase), e.Cause, e.Tail
		if e.Hint != "" {
			f.Cause += "; " + e.Hint
		}
	}
	return f
}
