package lazy

import (
	"context"
	"errors"
	"maps"
	"slices"

	"ibrun/lazy/peer"
	"ibrun/lazy/upgrade"
)

// Flush waits until all that was sent has been acknowledged or, on streams,
// handed to the kernel. The error names the ranks that messages may not have
// reached.
func (t *Table) Flush(ctx context.Context) error {
	t.mu.Lock()
	fars := slices.Collect(maps.Values(t.fars))
	t.mu.Unlock()
	for _, f := range fars {
		f.hurry()
	}
	var all error
	for _, f := range fars {
		if err := f.flush(ctx); err != nil {
			all = errors.Join(all, err)
		}
	}
	return all
}

// hurry asks the peer for the acknowledgement that it holds back, if so.
func (f *remotePeer) hurry() {
	f.t.fmu.Lock()
	defer f.t.fmu.Unlock()
	if f.unbundle(); !f.t.stopped && !f.departed {
		f.t.step(f, peer.Event{Kind: peer.Flush})
	}
}

func (f *remotePeer) flush(ctx context.Context) error {
	if err := f.await(ctx); err != nil {
		return err
	}
	defer func() { <-f.turn }()
	for {
		f.t.fmu.Lock()
		f.unbundle()
		err, left, stopped := f.report(), f.peer.Unacked(), f.t.stopped
		limbo := f.limbo || f.upgrade.Resuming()
		f.t.fmu.Unlock()
		if err != nil || left == 0 && !limbo {
			return err
		}
		if stopped {
			return ErrClosed
		}
		select {
		case <-f.news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// end stops a peer; the table is stopped.
func (f *remotePeer) end() {
	f.timer.Stop()
	f.bundle.stop()
	f.suspicion.timer.Stop()
	f.t.fmu.Lock()
	defer f.t.fmu.Unlock()
	f.step(upgrade.Event{Kind: upgrade.Failed})
	f.notify()
}
