package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"ibrun/bootstrap/remote/native"
)

// connection is a session's line when this process is its own ssh client.
type connection struct {
	*native.Session
}

func (c connection) Pids() []int { return nil }

func (c connection) inodes() []string { return []string{c.Inode()} }

func (c connection) abandon() { c.Abandon() }

func (c connection) setLimit(t time.Time) { c.Limit(t) }

func (c connection) Release() {} // a closed connection has no resources to release

func (c connection) drained() <-chan struct{} { return c.Done() }

// dial makes a session without a launcher. The error is an *Error or has errSSH
// in it.
func (s *Starter) dial(ctx context.Context, t Target, progress func(Phase)) (*Session, error) {
	system, err := s.system()
	if err != nil {
		return nil, s.leave(t, &native.Unfit{Why: "cannot find out which user this is: " + err.Error()})
	}
	cfg, err := native.ReadConfig(system, t.Host, t.User, s.how.Args)
	if err != nil {
		return nil, s.leave(t, err)
	}
	leave, err := s.gate.enter(ctx, net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))))
	if err != nil {
		return nil, &Error{Host: t.Host, Phase: Connect, Cause: err.Error()}
	}
	defer leave()
	ses := &Session{began: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, s.most(t))
	defer cancel()
	n, err := native.Start(ctx, cfg, s.command(t), &ses.stderr, func(p native.Phase) {
		if p == native.Open {
			leave() // it is authenticated
		}
		progress(Phase(p))
	})
	var unfit *native.Unfit
	var e *native.Error
	switch {
	case err == nil:
	case errors.As(err, &unfit):
		return nil, s.leave(t, err)
	case errors.As(err, &e):
		banner := strings.TrimSpace(ses.stderr.String())
		failed := &Error{
			Host: t.Host, Phase: Phase(e.Phase), Cause: e.Cause, Hint: e.Hint, Tail: banner, early: e.Early,
		}
		if strings.Contains(banner, adoption) { // sshd took the key, but Slurm refused the user
			failed.take(loginClues, banner)
		}
		failed.Hint = strings.ReplaceAll(failed.Hint, "HOST", t.Host)
		return nil, failed
	default:
		return nil, &Error{Host: t.Host, Phase: Connect, Cause: err.Error()}
	}
	ses.Stdin, ses.Stdout, ses.line = n.Stdin, n.Stdout, connection{n}
	return ses, nil
}

// errSSH is wrapped by errors of dial if the program ssh has to open the session.
var errSSH = errors.New("native ssh leaves it to ssh")

// leave tells the user that the program ssh opens the session to t, because package native cannot. The error why is
// the reason. leave tells the user only once for each reason.
// It returns an error that wraps errSSH. With --ssh native, it only returns an *Error.
func (s *Starter) leave(t Target, why error) error {
	if s.how.SSH == "native" {
		return &Error{Host: t.Host, Phase: Resolve, Cause: "native ssh cannot do what is configured: " + why.Error(),
			Hint: "leave --ssh native out"}
	}
	s.notifyOnce(why.Error(), fmt.Sprintf("native ssh leaves %s to ssh: %v", t.Host, why))
	return fmt.Errorf("%w: %w", errSSH, why)
}
