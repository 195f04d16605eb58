package ibrun

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Failures returns the ranks that have failed so far, in the order in which this rank learned of them. It also
// acknowledges them: Recv does not fail because of them any more. A rank fails when it is killed, or ends with an exit
// code other than 0 before Finalize.
//
// Only a job that is started with --keep-going continues when a rank fails. In such a job, a Recv that finds no message
// returns a *PeerError with the cause ErrFailed, once for each failed rank. Send and RecvFrom return a *PeerError each
// time that they are called for a failed rank. Collectives need all ranks, so they fail with a *CollectiveError that
// names a failed rank. Finalize does not wait for a failed rank. Its error names the rank if messages did not reach it.
func (w *World) Failures() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.table.Acknowledge() // under the lock, so that only failures in the list are acknowledged
	return slices.Clone(w.failed)
}

// failures handles the agent's report that ranks have failed. It logs and records each of them.
func (w *World) failures(m rankwire.Failures) {
	for s := range m.Ranks.All() {
		for slot := s.First; slot < min(s.End(), job.Slot(w.layout.Load().Ranks())); slot++ {
			w.log.Warn("a rank has failed", "rank", w.rank(slot))
			w.fail(slot)
		}
	}
}

// fail adds the rank in slot to the failed ranks and has Recv return an error about it.
func (w *World) fail(slot job.Slot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = append(w.failed, w.rank(slot))
	w.table.Failed(uint32(slot))
}

// Restarted returns the number of times that this rank was restarted. The environment variable IBRUN_RESTART of the
// rank has the same value.
func (w *World) Restarted() int { return int(job.StartOf(w.welcome.Epoch)) }

// Restarts returns the ranks that were restarted after this rank joined the job, in the order in which it learned of
// the restarts. It also acknowledges them: Recv does not fail because of them any more.
//
// Only a job that is started with --on-failure restart restarts single ranks. Each restart is reported once, as a
// *RestartError. A Recv or RecvFrom that finds no message returns it, or a Send or Flush if that finds first that
// messages to the old process of the rank are lost. Messages from the old process can be received until the restart is
// reported, and not afterwards. A collective that the old process had not joined fails for all ranks with the cause
// ErrRestarted. The new process joins the next collective. Values that the old process has put are deleted: Get waits
// for those of the new process.
func (w *World) Restarts() []RestartError {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.table.Restarts()
	return slices.Clone(w.restarted)
}

// Rollback requests that all ranks end and start again, for example from their last checkpoint. Each rank gets SIGTERM,
// and SIGKILL if it has not ended after the time of --kill-grace. The text gives the reason, of which ibrun shows the
// first 1,000 bytes to its user. Each rollback counts as one restart. If --max-restarts allows no more, the job ends
// with exit code 1.
//
// If Rollback succeeds, it does not return, because this process ends too. It returns an error that wraps ErrNoRestart
// if the job does not restart ranks, an AgentError if this node's agent is lost, and ErrFinalized after Finalize.
func (w *World) Rollback(text string) error {
	switch {
	case w.isFinalized():
		return ErrFinalized
	case w.control == nil || !w.welcome.Restarts:
		return fmt.Errorf("ibrun: Rollback: %w", ErrNoRestart)
	}
	_ = w.control.Send(rankwire.Rollback{Text: text[:min(len(text), abortText)]})
	<-w.over // the agent ends this process; listen closes over if the agent is lost
	return w.agentError()
}

// restarts handles the agent's report that ranks were restarted. If Op is 0, they were restarted before this rank
// joined, and the program is not told.
func (w *World) restarts(m rankwire.Restarted) {
	known := m.Op == 0
	w.mu.Lock()
	defer w.mu.Unlock()
	if !known {
		w.op, w.floor = max(w.op, m.Op), max(w.floor, m.Op)
	}
	for slot := m.First; slot < min(m.First+job.Slot(m.Count), job.Slot(w.layout.Load().Ranks())); slot++ {
		w.table.Restarted(uint32(slot), m.Epoch, known)
		if !known {
			w.restarted = append(w.restarted, RestartError{Rank: w.rank(slot), Restarts: int(job.StartOf(m.Epoch))})
		}
	}
}

// Resize describes a change of the number of ranks in the job, from Old to New. Ranks below both numbers stay and keep
// their numbers, nodes and addresses. If the job grows, the ranks from Old to New-1 join. If it shrinks, the ranks from
// New to Old-1 leave.
type Resize struct{ Old, New int }

// Grows reports whether ranks join the job.
func (r Resize) Grows() bool { return r.New > r.Old }

// Shrinks reports whether ranks leave the job.
func (r Resize) Shrinks() bool { return r.New < r.Old }

// Resized returns the number of times that the size of the job has changed. If it is above 0 after Init, this rank has
// joined a running job.
func (w *World) Resized() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.resized
}

// Resizes returns the change that takes effect when all ranks call Resize. If there is none, Old and New are both the
// size of the job. Ranks may learn of a change at different times. To act on it together, they take the result of one
// rank, by Broadcast or in messages that they exchange anyway.
func (w *World) Resizes() Resize {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting()
}

// waiting returns the result of Resizes. The caller holds the lock.
func (w *World) waiting() Resize {
	r := Resize{w.Size(), w.Size()}
	if l := w.change.Layout; l.Nodes() > 0 {
		r.New = int(l.Ranks())
	}
	return r
}

// Resize is a collective that applies a change of the job's size, which the user has requested with ibrun ctl grow or
// ibrun ctl shrink. The result is the same for all ranks. If Old equals New, there was no change to apply. The size
// of a job can be changed only if its ranks have called Resize. A program that supports changes therefore calls
// Resize once at its start, and again whenever a change may take effect.
//
// The ranks that a change adds start when Resize returns. They see the new size, and the first collective that they
// call is the next one that the other ranks call.
//
// Before ranks leave, Resize calls move on all ranks, so that leaving ranks can pass on their data. During move, all
// ranks can still exchange messages, and Size returns the old size. The new size takes effect when move has returned
// on all ranks. Messages between ranks that stay and ranks that leave must have been received by then. Afterwards the
// number of a leaving rank is not below Size, and the rank can only call Finalize and end. If move is nil, it is not
// called. If move returns an error, so does Resize. Resize then fails on the other ranks if this rank ends.
//
// If ctx is done first, Resize returns its error. This rank has then taken part in the collective, as in a Barrier.
func (w *World) Resize(ctx context.Context, move func(Resize) error) (Resize, error) {
	if err := w.usable(); err != nil {
		return Resize{}, err
	}
	old := w.Size()
	if err := w.resizeOnce(ctx); err != nil {
		return Resize{old, old}, err
	}
	w.mu.Lock()
	change, agreed := w.waiting(), w.change.Step == rankwire.ResizeAgreed
	w.mu.Unlock()
	if !agreed {
		return Resize{old, w.Size()}, nil
	}
	if move != nil {
		if err := move(change); err != nil {
			return change, err
		}
	}
	return change, w.resizeOnce(ctx)
}

// resizeOnce flushes the messages that this rank has sent and takes part in one step of a change.
func (w *World) resizeOnce(ctx context.Context) error {
	flushed := w.table.Flush(ctx)
	// Join the collective even if Flush has failed, because the other ranks wait for this one.
	_, err := w.gather(ctx, rankwire.Collect{What: rankwire.Resizing})
	return errors.Join(flushed, err)
}

// resizes handles the agent's report about a change of the job's size. The report arrives before the Release of the
// collective in which ranks agree on the change or complete it.
func (w *World) resizes(m rankwire.Resize) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.Step != rankwire.ResizeDone {
		w.change = m
		return
	}
	w.change = rankwire.Resize{}
	w.resized++
	if uint32(w.welcome.Rank) < m.Layout.Ranks() { // the table of a leaving rank keeps the old layout
		w.table.Resized(m.Layout, m.Start)
	}
	w.layout.Store(&m.Layout)
}

// left reports whether a Resize has removed this rank from the job.
func (w *World) left() bool { return uint32(w.welcome.Rank) >= w.layout.Load().Ranks() }
