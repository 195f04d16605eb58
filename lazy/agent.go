package lazy

import (
	"maps"
	"slices"

	"ibrun/fabric"
	"ibrun/internal/job"
	"ibrun/lazy/peer"
)

// Answered handles the agent's answer to Resolver.AskBlock. rank and fresh are the arguments of that call. encoded is
// an encoded fabric.Block; if there is none, failure is ErrEnded, ErrFailed or ErrRank. Answered passes the addresses
// in the block to the peers that wait for them. If there is no block, it reports failure to the peer with the given
// rank. The other peers of the node keep waiting. Answered calls AskBlock for them again, except for fresh
// questions, which the agent still has to answer.
func (t *Table) Answered(rank uint32, fresh bool, encoded []byte, failure error) {
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if t.stopped || rank >= t.layout().Ranks() {
		return
	}
	t.count(func(s *sums) { s[job.CountAddressBytes] += uint64(len(encoded)) })
	node := t.nodeOf(rank)
	var block *fabric.Block
	if failure == nil {
		b, err := fabric.ParseBlock(encoded)
		if err != nil || b.Node != node {
			return
		}
		block, t.blocks[node] = b, b
	}
	if block == nil {
		t.in.lose(rank, t.about(rank, failure))
	}
	if fresh && t.isFar(rank) {
		f := t.remotePeer(rank)
		f.checking = false
		if f.limbo && (block == nil || !t.isNewer(block, rank)) {
			f.conclude(failure)
		}
	}
	waiting := t.asking[node]
	delete(t.asking, node)
	for _, w := range waiting {
		runs := fresh && w.rank == rank
		if block != nil {
			if tuple, epoch, ok := block.Tuple(w.rank); ok && epoch >= w.least && (!w.fresh || runs) {
				t.resolved(w.remotePeer, tuple, epoch, runs)
				t.openReady()
				continue
			}
		} else if w.rank == rank {
			t.step(w.remotePeer, peer.Event{Kind: peer.Unresolved, Cause: causeOf(failure)})
			continue
		}
		t.asking[node] = append(t.asking[node], w)
		if !w.fresh || runs {
			t.ask(w) // w has not been sent yet, or the agent's answer lacks the requested epoch
		}
	}
}

// isNewer reports whether, according to b, rank was restarted more often than this table knows.
func (t *Table) isNewer(b *fabric.Block, rank uint32) bool {
	_, epoch, _ := b.Tuple(rank)
	return job.StartOf(epoch) > t.start(rank)
}

// causeOf returns the cause of an Unresolved event for the failure that the agent has answered. It returns peer.Broken
// for any error other than ErrEnded and ErrRank.
func causeOf(failure error) peer.Cause {
	switch failure {
	case ErrEnded:
		return peer.Exited
	case ErrRank:
		return peer.NoRank
	}
	return peer.Broken
}

// AnsweredSecondary handles the agent's answer to Resolver.AskSecondary. encoded is the encoded fabric.Tuple of the
// second address of rank; if there is none, failure is ErrEnded, ErrFailed or ErrRank.
func (t *Table) AnsweredSecondary(rank uint32, encoded []byte, failure error) {
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if t.stopped || rank >= t.layout().Ranks() || !t.isFar(rank) {
		return
	}
	f := t.remotePeer(rank)
	epoch := f.secondary.asked
	if epoch == 0 {
		return
	}
	f.secondary.asked = 0
	if failure != nil {
		t.in.lose(rank, t.about(rank, failure))
		t.step(f, peer.Event{Kind: peer.Unresolved, Cause: causeOf(failure)})
		return
	}
	t.count(func(s *sums) { s[job.CountAddressBytes] += uint64(len(encoded)) })
	tuple, _, err := fabric.ParseTuple(encoded)
	if err != nil {
		tuple = fabric.Tuple{Kind: fabric.NONE}
	}
	f.secondary.tuple, f.secondary.epoch = tuple, epoch
	if t.fabric.Tuple().Kind.Ethernet() {
		if first, at, ok := t.known(rank, epoch); ok {
			t.resolved(f, first, at, false)
			t.openReady()
		}
		return
	}
	t.step(f, peer.Event{Kind: peer.SecondaryFound, Tuple: tuple})
	if tuple.Kind == fabric.NONE && t.down != nil {
		f.kill(t.down)
		t.in.alarm(f.dead)
	}
}

// Restarted records that a rank was restarted and that epoch is its lowest valid epoch from now on. known is set if the
// program has joined the job after the restart and so knows about it.
func (t *Table) Restarted(rank uint32, epoch uint16, known bool) {
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if t.stopped || rank >= t.layout().Ranks() || rank == t.cfg.Rank {
		return
	}
	t.renew(rank, epoch, known)
	t.mu.Lock()
	f := t.fars[rank]
	t.mu.Unlock()
	if f != nil {
		t.step(f, peer.Event{Kind: peer.Floor, Epoch: epoch})
	}
}

// Resized sets a new layout, which has fewer or more nodes at its end. The state of all ranks that remain is kept.
// Ranks that have left are forgotten, except for messages that wait to be received. start is the initial number of
// restarts of the added ranks. It is greater than 0 if other ranks have used the same slots before.
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

// forget drops the state of all ranks that are not in the layout. The caller holds Table.fmu.
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

// discard drops all queued messages from the peer with the slot from.
func (b *inbox) discard(from uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.source(from)
	for _, e := range slices.Clone(s.queue) {
		b.remove(e, s)
	}
}
