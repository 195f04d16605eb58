package lazy

import (
	"maps"
	"slices"

	"ibrun/fabric"
	"ibrun/internal/job"
)

// layout is how the ranks of the job lie on nodes now.
func (t *Table) layout() *job.Layout { return t.of.Load() }

// Resized takes a layout with fewer or more nodes at its end. What is known of all other ranks
// stays. Ranks that have left are forgotten, but for messages that wait to be received. Start is
// that of ranks that come: above 0 if others had their numbers before.
func (t *Table) Resized(l job.Layout, start uint8) {
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if t.stopped {
		return
	}
	old := t.layout()
	t.of.Store(&l)
	t.forget(l)
	for rank := old.Ranks(); rank < l.Ranks() && start > 0; rank++ {
		t.in.discard(rank)
		t.renew(rank, job.Epoch(start, 1), true)
	}
}

// forget drops all that is known of ranks that a layout does not have; the caller holds the lock of
// remote peers.
func (t *Table) forget(l job.Layout) {
	t.mu.Lock()
	var left []*remotePeer
	for _, rank := range slices.Sorted(maps.Keys(t.fars)) {
		if rank >= l.Ranks() {
			left = append(left, t.fars[rank])
			delete(t.fars, rank)
		}
	}
	t.mu.Unlock()
	for _, f := range left {
		f.timer.Stop()
		f.suspicion.timer.Stop()
		t.early -= f.early
		f.early, f.departed = 0, true
		f.down()
		f.close(nil)
		f.dead = t.about(f.rank, ErrRank)
		f.notify()
	}
	t.ready = slices.DeleteFunc(t.ready, func(q queued) bool { return q.remote.departed })
	beyond := func(node uint32) bool { return node >= l.Nodes() }
	maps.DeleteFunc(t.blocks, func(node uint32, _ *fabric.Block) bool { return beyond(node) })
	maps.DeleteFunc(t.asking, func(node uint32, _ []waitingRemote) bool { return beyond(node) })
	t.openReady()
}

// discard drops the messages of a peer that were not received.
func (b *inbox) discard(from uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.source(from)
	for _, e := range slices.Clone(s.queue) {
		b.remove(e, s)
	}
}
