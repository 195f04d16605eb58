package ibrun

import (
	"context"
	"errors"

	"ibrun/bootstrap/wire/rankwire"
)

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
