package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"ibrun/internal/build"
)

// Start opens a session to t and blocks until the agent has sent its first line. If the node does not have this build,
// Start sends the binary. It calls progress at the beginning of each phase. The error is an *Error. If a temporary
// failure before authentication occurs, Start tries again, up to retries attempts in all.
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
			t.other = true // skip the path of this binary in the next attempt
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

// attempt opens a session once and waits for the agent's first line. The error is an *Error, or errOther if another
// build is at the path of this binary and t.other is false.
func (s *Starter) attempt(ctx context.Context, t Target, progress func(Phase)) (*Session, error) {
	session, err := s.open(ctx, t, progress)
	if err != nil {
		return nil, err
	}
	s.coming.Store(session, true)
	defer s.coming.Delete(session)
	stop := context.AfterFunc(ctx, session.abandon)
	defer stop()
	err = session.meet(t, s.most(t), progress)
	if err == nil {
		return session, nil
	}
	if errors.Is(err, io.EOF) {
		session.leave(ctx)
	}
	session.abandon()
	<-session.Done()
	if errors.Is(err, errOther) && !t.other {
		return nil, err
	}
	return nil, session.explain(t, err, s)
}

// most returns the time limit for the start of the agent on t.
func (s *Starter) most(t Target) time.Duration { return cmp.Or(t.Most, s.how.Timeout) }

// open connects to t, without waiting for the agent. It uses the step of t.member, the ssh client of package native, or
// a process of the launcher, whichever is possible first. The error is an *Error.
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

// ready checks the words of the agent's first line. It returns an error if the agent's build differs from this one.
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

// These constants control the attempts of Start after failures before authentication. They are necessary because sshd
// drops connections at random if many are opened at once (MaxStartups, 10:30:100 by default).
const (
	retries    = 6                      // maximum number of attempts, including the first
	retryFirst = 200 * time.Millisecond // mean wait before the second attempt; doubles each time
)
