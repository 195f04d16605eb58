package ibrun

import (
	"context"
	"fmt"

	"ibrun/internal/job"
)

// Send sends a message to a rank, this one included. When it returns, the message is on its way or
// held by this package, and m is the caller's again. Messages of one rank to another arrive once
// and in order. Send waits while the receiver takes nothing; if ctx ends before a long message has
// begun to leave, the message is not sent. A *PeerError says that the rank is gone, and may be
// about messages that were sent before; a later Send tries again. A message has at most 2 GiB - 1
// byte.
func (w *World) Send(ctx context.Context, to int, m []byte) error {
	slot, err := w.slot("Send", to)
	if err != nil {
		return err
	}
	return w.table.Send(ctx, uint32(slot), m)
}

// TrySend is Send that never waits: ErrWouldBlock says that nothing was sent. It has begun to
// connect then, if there was no connection.
func (w *World) TrySend(to int, m []byte) error {
	slot, err := w.slot("TrySend", to)
	if err != nil {
		return err
	}
	return w.table.TrySend(uint32(slot), m)
}

// Recv waits for the next message of any rank. The message is the caller's. With an error, from is
// -1.
//
// A *PeerError says, once, that messages of this rank to another were lost on the way, so that the
// other may wait for ever. With the cause ErrFailed it says, once for each rank, that a rank has
// failed, whose message may be what the caller waits for: see Failures. Recv may be called again
// after both. If ctx ends first, Recv returns its error, and no message is lost.
func (w *World) Recv(ctx context.Context) (from int, m []byte, err error) {
	got, err := w.table.Recv(ctx)
	if err != nil {
		return -1, nil, err // no rank: a call that gets -1 fails
	}
	return w.rank(job.Slot(got.From)), got.Body, nil
}

// RecvFrom waits for the next message of one rank. When that rank is known to be gone and all it
// sent has been received, it returns a *PeerError. If ctx ends first, RecvFrom returns its error,
// and no message is lost.
func (w *World) RecvFrom(ctx context.Context, from int) ([]byte, error) {
	slot, err := w.slot("RecvFrom", from)
	if err != nil {
		return nil, err
	}
	got, err := w.table.RecvFrom(ctx, uint32(slot))
	return got.Body, err
}

// Free gives the memory of a message from Recv or RecvFrom back, to be used for another; the caller
// must not touch it again. Calling it is optional. For streams of long messages it saves the cost
// of fresh memory, which is about that of the transfer.
func (w *World) Free(m []byte) { w.table.Free(m) }

// Flush waits until what this rank sent has been acknowledged by the receiving ranks or, for long
// messages, taken by the kernel. The error names ranks that messages may not have reached. If ctx
// ends first, Flush returns its error; what was sent stays on its way.
func (w *World) Flush(ctx context.Context) error {
	if w.isFinalized() {
		return ErrFinalized // and no news of ranks that have finalized as well
	}
	return w.table.Flush(ctx)
}

// Warm connects to ranks ahead of the first message, for instance before a timed phase. It does not
// wait, and does nothing for ranks that are connected.
func (w *World) Warm(ranks ...int) error {
	list := make([]uint32, len(ranks))
	for i, r := range ranks {
		slot, err := w.slot("Warm", r)
		if err != nil {
			return err
		}
		list[i] = uint32(slot)
	}
	return w.table.Warm(list...)
}

// slot is a rank's place in the order of nodes.
func (w *World) slot(op string, rank int) (job.Slot, error) {
	if rank < 0 || rank >= w.Size() {
		return 0, fmt.Errorf("ibrun: %s: rank %d of 0 to %d: %w", op, rank, w.Size()-1, ErrNoSuchRank)
	}
	return w.layout.Load().Slot(job.Rank(rank)), nil
}

// rank is the rank in a slot.
func (w *World) rank(slot job.Slot) int { return int(w.layout.Load().Rank(slot)) }
