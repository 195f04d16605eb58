package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/remote"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
)

// sweepNode has a node swept by an agent of its own, which ends then.
func (l *loop) sweepNode(e core.SweepNode) {
	ctx, cancel := context.WithTimeout(l.ctx, e.Most)
	go func() {
		select {
		case <-l.over:
			cancel()
		case <-ctx.Done():
		}
	}()
	l.helpers.Go(func() {
		defer cancel()
		ev := core.NodeSwept{Index: e.Index}
		if m, err := l.askSwept(ctx, e); err != nil {
			ev.Cause = err.Error()
		} else {
			ev.Killed, ev.Left = m.Killed, m.Left
		}
		l.post(ev)
	})
}

// askSwept opens the session, orders the sweep and waits for the answer.
func (l *loop) askSwept(ctx context.Context, e core.SweepNode) (answer wire.Swept, err error) {
	target := remote.Target{Host: e.Node.Host, User: e.Node.User, Local: e.Local, Most: e.Most}
	s, err := l.starter.Start(ctx, target, func(remote.Phase) {})
	if err != nil {
		return answer, err
	}
	defer s.Release()
	defer s.Kill()
	stop := context.AfterFunc(ctx, s.Kill)
	defer stop()
	order := wire.Sweep{Job: l.root.cfg.Job.ID, Node: e.Index, GraceMs: uint32(e.Grace / time.Millisecond)}
	if _, err := s.Stdin.Write(frame.Append(nil, order)); err != nil {
		return answer, err
	}
	for frames := wire.Vocabulary.NewReader(s.Stdout, frame.Child); ; {
		m, err := frames.Next()
		switch m := m.(type) {
		case nil:
			if ctx.Err() != nil {
				err = fmt.Errorf("no answer within %v", e.Most)
			} else if errors.Is(err, io.EOF) {
				err = errors.New("its agent ended without an answer")
			}
			return answer, err
		case wire.Swept:
			select { // it ends by itself now
			case <-s.Done():
			case <-ctx.Done():
			}
			return m, nil
		}
	}
}
