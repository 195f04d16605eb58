package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"ibrun/internal/build"
)

// Start opens a session and blocks until the agent behind it has said its
// first word. It ships the binary where the node has none. The error is an
// *Error. Only what fails before authentication is tried again.
func (s *Starter) Start(ctx context.Context, t Target, progress func(Phase)) (*Session, error) {
	if strings.HasPrefix(t.Host, "-") {
		return nil, &Error{Host: t.Host, Phase: Resolve, Cause: "not a host name"}
	}
	wait := retryFirst
	t.role = s.role()
	for try := 1; ; try++ {
		session, err := s.attempt(ctx, t, progress)
		t.member = nil
		if errors.Is(err, errOther) && !t.other {
			t.other = true // once: the error is an *Error then
			continue
		}
		var e *Error
		if err == nil || !errors.As(err, &e) || !e.early || try == retries {
			return session, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Duration((0.5 + s.jitter()) * float64(wait))):
		}
		wait *= 2
	}
}

// attempt opens one session.
func (s *Starter) attempt(ctx context.Context, t Target, progress func(Phase)) (*Session, error) {
	session, err := s.open(ctx, t, progress)
	if err != nil {
		return nil, err
	}
	s.came(session)
	defer s.left(session)
	stop := context.AfterFunc(ctx, session.line.abandon)
	defer stop()
	err = session.meet(t, s.most(t), progress)
	if err == nil {
		return session, nil
	}
	if errors.Is(err, io.EOF) {
		session.leave(ctx)
	}
	session.line.abandon()
	<-session.Done()
	if errors.Is(err, errOther) && !t.other {
		return nil, err
	}
	return nil, session.explain(t, err, s)
}

// most is how long a session may take.
func (s *Starter) most(t Target) time.Duration {
	if t.Most > 0 {
		return t.Most
	}
	return s.how.Timeout
}

// open makes the session, in this process if that can be done.
func (s *Starter) open(ctx context.Context, t Target, progress func(Phase)) (*Session, error) {
	var left error
	if t.member != nil {
		session, err := t.member.join(ctx, s.most(t)/stepShare, progress)
		if !errors.Is(err, errAlone) {
			return session, err
		}
	}
	if s.native && !t.Local {
		session, err := s.dial(ctx, t, progress)
		if !errors.Is(err, errSSH) {
			return session, err
		}
		left = err
	}
	session, err := s.spawn(t)
	if err != nil {
		return nil, &Error{Host: t.Host, Phase: Begin, Cause: strings.ReplaceAll(errors.Join(left, err).Error(), "\n",
			"; "), Hint: "is the launcher installed here?"}
	}
	return session, nil
}

// ready checks the agent's first line.
func ready(host string, words []string) error {
	if len(words) != 3 {
		return fmt.Errorf("invalid first line of its agent: %q", words)
	}
	if words[0] != build.ID() {
		return fmt.Errorf("it runs ibrun build %s, this is build %s: install the same build on both, or remove the "+
			"other and let ibrun ship itself", words[0], build.ID())
	}
	return nil
}

// Retries before authentication: sshd drops connections at random when many
// come at once (MaxStartups, 10:30:100 by default).
const (
	retries    = 6
	retryFirst = 200 * time.Millisecond
)
