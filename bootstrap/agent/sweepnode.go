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
)

// sweepNode starts an agent on another node, which kills the processes that a lost agent has left there, and then
// ends.
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
		l.NodeSwept(ev)
	})
}

// askSwept opens a session to the node, sends the order to sweep, and waits for the answer.
func (l *loop) askSwept(ctx context.Context, e core.SweepNode) (answer wire.Swept, err error) {
	target := remote.Target{Host: e.Node.Host, User: e.Node.User, Local: e.Local, Most: e.Most}
	order := wire.Sweep{Job: l.root.cfg.Job.ID, Node: e.Index, GraceMs: uint32(e.Grace / time.Millisecond)}
	s, answer, err := request[wire.Swept](ctx, l, target, order)
	switch {
	case s == nil:
		return answer, err
	case err != nil && ctx.Err() != nil:
		return answer, fmt.Errorf("no answer within %v", e.Most)
	case errors.Is(err, io.EOF):
		return answer, errors.New("its agent ended without an answer")
	case err != nil:
		return answer, err
	}
	defer s.Release()
	defer s.Kill()
	select { // wait until the session ends by itself
	case <-s.Done():
	case <-ctx.Done():
	}
	return answer, nil
}
