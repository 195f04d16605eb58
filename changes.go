package ibrun

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Failures returns the ranks that have failed so far, in the order in which this rank was told, and
// acknowledges them: Recv does not fail for them any more. A rank fails when it is killed, or ends
// with an exit code other than 0 before Finalize.
//
// Only a job that is started with --keep-going goes on when a rank fails. In such a job a Recv that
// finds no message returns a *PeerError with the cause ErrFailed, once for each failed rank. Send
// to a failed rank and RecvFrom it return a *PeerError each time. Collectives need all ranks, and
// fail with a *CollectiveError that names a failed rank. Finalize does not wait for a failed rank,
// and names it if messages did not reach it.
func (w *World) Failures() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.table.Acknowledge() // under the lock: a failure that is told of now is not in the list
	return slices.Clone(w.failed)
}

// failures takes the agent's word of ranks that have failed.
func (w *World) failures(m rankwire.Failures) {
	for s := range m.Ranks.All() {
		for slot := s.First; slot < min(s.End(), job.Slot(w.layout.Load().Ranks())); slot++ {
			w.log.Warn("a rank has failed", "rank", w.rank(slot))
			w.fail(slot)
		}
	}
}

func (w *World) fail(slot job.Slot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = append(w.failed, w.rank(slot))
	w.table.Failed(uint32(slot))
}

// Restarted returns how often this rank was restarted: 0 at first. It has the value of
// IBRUN_RESTART in the rank's environment.
func (w *World) Restarted() int { return int(job.StartOf(w.welcome.Epoch)) }

// Restarts returns the ranks that were restarted since this one has joined the job, in the order in
// which it was told, and acknowledges them: Recv does not fail for them any more.
//
// Only a job that is started with --on-failure restart restarts ranks. In such a job a Recv or
// RecvFrom that finds no message returns a *RestartError, once for each restart. So does a Send or
// Flush that finds that messages to the old start are lost, in place of Recv. What the old start
// has sent can be received until then, and not afterwards. A collective that the old start had not
// joined fails for all ranks with the cause ErrRestarted; the new start joins the next one that is
// called. Values that the old start has put are gone: Get waits for those of the new start.
func (w *World) Restarts() []RestartError {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.table.Restarts()
	return slices.Clone(w.restarted)
}

// Rollback asks that all ranks end and start again, from a checkpoint as they see fit: each gets
// SIGTERM, and SIGKILL after the job's grace (--kill-grace). The text says why, and goes to the
// user of ibrun; it is cut after 1,000 bytes. Each rollback counts as one restart: if there may be
// no more (--max-restarts), the job ends with exit code 1.
//
// Rollback does not return where it succeeds, since this process ends with the others. It returns
// an error with ErrNoRestart if the job is not one that restarts ranks, an AgentError if this
// node's agent is lost, and ErrFinalized after Finalize.
func (w *World) Rollback(text string) error {
	w.mu.Lock()
	finalized := w.finalized
	w.mu.Unlock()
	switch {
	case finalized:
		return ErrFinalized
	case w.control == nil || !w.welcome.Restarts:
		return fmt.Errorf("ibrun: Rollback: %w", ErrNoRestart)
	}
	_ = w.control.Send(rankwire.Rollback{Text: text[:min(len(text), abortText)]})
	<-w.over // the agent ends this process; the reader waits with us
	return w.agentError()
}

// restarts takes the agent's word of ranks that were restarted.
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

// Resize is a change of the number of ranks in the job. Ranks below both numbers stay; they keep
// their numbers, nodes and addresses. Those from Old on come, or those from New on leave.
type Resize struct{ Old, New int }

// Grows reports whether ranks come.
func (r Resize) Grows() bool { return r.New > r.Old }

// Shrinks reports whether ranks leave.
func (r Resize) Shrinks() bool { return r.New < r.Old }

// Resized returns how often the job has changed its size. A rank for which it is above 0 after Init
// has come to a job that runs.
func (w *World) Resized() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.resized
}

// Resizes returns the change that waits for all ranks to call Resize; without one, both numbers are
// the job's size. Ranks may learn of a change at different times: to act on it together they ask
// one of them, with Broadcast or in messages that they exchange anyway.
func (w *World) Resizes() Resize {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting()
}

// waiting is Resizes; the caller holds the lock.
func (w *World) waiting() Resize {
	r := Resize{w.Size(), w.Size()}
	if l := w.change.Layout; l.Nodes() > 0 {
		r.New = int(l.Ranks())
	}
	return r
}

// Resize is a collective: it lets a change of the job's size take effect that the user has asked
// for with ibrun ctl grow or ibrun ctl shrink. The result is the same for all ranks; if Old is New,
// there was nothing to do. A job whose ranks have never called Resize keeps its size, so a program
// that can change calls it once at its start, and then as often as it likes.
//
// The ranks that a change adds start when Resize returns, with Size and all else as they are from
// then on. They meet the others in the collective that these call next.
//
// Before ranks leave, Resize calls move on all ranks: there they hand on what the others have to
// know. All can still talk to all, and Size is the old one. When all have returned from it, the new
// size counts. Messages between ranks that stay and ranks that leave must have been received by
// then. A rank that leaves, whose number is not below Size any more, has only to call Finalize and
// to end. Move may be nil; its error is returned, and fails the other ranks if this one ends then.
//
// If ctx ends first, Resize returns its error, and this rank has taken part as in a Barrier.
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

// resizeOnce takes part in one step of a change. What was sent has arrived before.
func (w *World) resizeOnce(ctx context.Context) error {
	flushed := w.table.Flush(ctx)
	_, err := w.gather(ctx, rankwire.Collect{What: rankwire.Resizing}) // in any case: the others wait
	return errors.Join(flushed, err)
}

// resizes takes the agent's word of a change. It comes before the Release of the collective that
// brings it about.
func (w *World) resizes(m rankwire.Resize) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.Step != rankwire.ResizeDone {
		w.change = m
		return
	}
	w.change = rankwire.Resize{}
	w.resized++
	if uint32(w.welcome.Rank) < m.Layout.Ranks() { // a rank that leaves ends with what it knows
		w.table.Resized(m.Layout, m.Start)
	}
	w.layout.Store(&m.Layout)
}

// left reports whether this rank has left the job.
func (w *World) left() bool { return uint32(w.welcome.Rank) >= w.layout.Load().Ranks() }
