package lazy

import (
	"context"
	"errors"

	"ibrun/lazy/peer"
)

// Flush waits until each message that was sent to another node has been acknowledged by that rank or written to a
// stream. Its error contains a *PeerError or *RestartError for each rank to which messages may have been lost.
func (t *Table) Flush(ctx context.Context) error {
	fars := t.remotePeers()
	for _, f := range fars {
		f.hurry()
	}
	var failed []error
	for _, f := range fars {
		failed = append(failed, f.flush(ctx))
	}
	return errors.Join(failed...)
}

// hurry sends the bundle, if there is one. It asks the peer to send a delayed acknowledgement at once.
func (f *remotePeer) hurry() {
	f.t.fmu.Lock()
	defer f.t.fmu.Unlock()
	if f.unbundle(); !f.t.stopped && !f.departed {
		f.t.step(f, peer.Event{Kind: peer.Flush})
	}
}

// flush waits until no other sender is at work, and then until all messages to f are acknowledged or written.
func (f *remotePeer) flush(ctx context.Context) error {
	if err := acquire(ctx, f.turn); err != nil {
		return err
	}
	defer func() { <-f.turn }()
	f.t.fmu.Lock()
	defer f.t.fmu.Unlock()
	for {
		f.unbundle()
		if err := f.report(); err != nil || f.peer.Unacked() == 0 && !f.limbo && !f.peer.Resuming() {
			return err
		}
		if f.t.stopped {
			return ErrClosed
		}
		if err := f.waitNews(ctx); err != nil {
			return err
		}
	}
}
