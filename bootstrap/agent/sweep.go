package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/frame"
	"ibrun/bootstrap/reaper"
	"ibrun/bootstrap/remote"
	"ibrun/bootstrap/wire"
	"ibrun/internal/cgroup"
	"ibrun/internal/proc"
	"ibrun/internal/scratch"
)

// killWait is how long what was sent SIGKILL has to die.
const killWait = 2 * time.Second

// sweepJob kills what a lost agent of this node has left. A rank's environment names its job and
// its node; what the rank forks inherits that.
func (l *loop) sweepJob(e core.SweepJob) {
	mark := proc.Mark{
		Variables: []string{"IBRUN_JOB_ID=" + e.Job, "IBRUN_NODE=" + strconv.FormatUint(uint64(e.Node), 10)},
		Keeper:    reaper.Agent,
	}
	go func() {
		killed, left, err := proc.KillMarked(mark, e.Grace, killWait)
		scratch.Sweep(os.TempDir()) // of the lost agent, and of its reaper, which would have
		if err != nil {             // the end of this link says that it is not known
			l.post(core.LinkLost{Link: core.Up, Cause: err.Error()})
			return
		}
		group := cgroup.Find(e.Job, uint32(e.Node)) // with what has given up its mark
		killed += len(group.Processes())
		group.Kill()
		if !group.Remove(killWait) {
			left = append(left, group.Processes()...)
		}
		l.post(core.JobSwept{Killed: uint32(killed), Left: unkillable(left)})
	}()
}

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
