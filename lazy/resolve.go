package lazy

import (
	"slices"

	"ibrun/fabric"
	"ibrun/internal/job"
	"ibrun/lazy/peer"
)

// Resolver asks the agent of this node about other ranks. Each method sends a question and returns without the answer.
// The owner of the table passes the answer to a method of Table. It must do so from another goroutine, because the
// table calls the Resolver with its locks held.
type Resolver interface {
	// AskBlock asks for the addresses of all ranks on the node of rank (fabric.Block). The epoch of rank in the
	// block must be at least least. If fresh is set, the answer comes only after rank has replied to a question
	// of its own agent, which shows that rank still runs. The answer goes to Table.Answered.
	AskBlock(rank uint32, least uint16, fresh bool) error
	// AskSecondary asks for the second address of rank, which that rank's table has passed to
	// Config.SecondaryOpened. The epoch of rank must be at least least. The answer goes to
	// Table.AnsweredSecondary.
	AskSecondary(rank uint32, least uint16) error
	// AskPair asks for a socket that is connected to a rank of this node. The answer goes to Table.Paired.
	AskPair(rank uint32) error
}

// resolve queues the address of f for its peer. The epoch of f must be at least least. If fresh is not set, resolve
// first looks in the blocks that the table has. If fresh is set, or if the blocks lack the
// address, resolve asks the agent, unless the agent has been asked for the same block already. The answer goes to
// Answered.
func (t *Table) resolve(f *remotePeer, least uint16, fresh bool) {
	least = max(least, t.cfg.Least)
	if !fresh {
		if tuple, epoch, ok := t.known(f.rank, least); ok {
			t.resolved(f, tuple, epoch, false)
			return
		}
	}
	node := t.nodeOf(f.rank)
	waiting := t.asking[node]
	w := waitingRemote{f, least, fresh}
	if i := slices.IndexFunc(waiting,
		func(o waitingRemote) bool { return o.remotePeer == f && o.fresh && fresh }); i >= 0 {
		waiting[i] = w
	} else {
		t.asking[node] = append(waiting, w)
	}
	if !fresh && slices.ContainsFunc(waiting, func(o waitingRemote) bool { return !o.fresh }) {
		return // the agent has been asked for this block already
	}
	t.ask(w)
}

// nodeOf returns the index of the node on which a rank runs. rank is a slot.
func (t *Table) nodeOf(rank uint32) uint32 { return uint32(t.layout().NodeOf(job.Slot(rank))) }

// known returns the address and the epoch of rank from the blocks that the table has. ok is false if no block contains
// rank, or if its epoch there is less than least.
func (t *Table) known(rank uint32, least uint16) (tuple fabric.Tuple, epoch uint16, ok bool) {
	if b := t.blocks[t.nodeOf(rank)]; b != nil {
		tuple, epoch, ok = b.Tuple(rank)
	}
	return tuple, epoch, ok && epoch >= least
}

// waitingRemote is a peer about which the agent has been asked. The fields least and fresh are the arguments of
// Resolver.AskBlock.
type waitingRemote struct {
	*remotePeer
	least uint16
	fresh bool
}

// ask sends the agent the question w. If w.fresh is set and the agent has not answered an earlier fresh question about
// the same peer yet, ask does nothing, because the agent answers a fresh question only after the peer has replied.
func (t *Table) ask(w waitingRemote) {
	count := job.CountLookups
	if w.fresh {
		if w.checking {
			return
		}
		count, w.checking = job.CountChecks, true
	}
	t.count(func(s *sums) { s[count]++ })
	// Ignore the error: it means that the agent is lost, which ends the job.
	_ = t.cfg.Resolver.AskBlock(w.rank, w.least, w.fresh)
}

// queued is an answer of the agent that its peer has not got yet.
type queued struct {
	remote *remotePeer
	ev     peer.Event
}

// resolved queues the address of f for its peer.Peer, which starts the handshake with it: openReady passes it on. If the
// first fabric of this rank is Ethernet and the address is not, resolved uses the second address of f, and asks the agent
// for it if it is not known. If tuple.Kind is NONE, f cannot be reached.
func (t *Table) resolved(f *remotePeer, tuple fabric.Tuple, epoch uint16, fresh bool) {
	ev := peer.Event{Kind: peer.Resolved, Tuple: tuple, Epoch: epoch, Fresh: fresh}
	switch {
	case tuple.Kind == fabric.NONE:
		ev = peer.Event{Kind: peer.Unresolved, Cause: peer.NoRank}
	case !t.fabric.Tuple().Kind.Ethernet() || tuple.Kind.Ethernet():
	case f.secondary.epoch != epoch:
		t.askSecondary(f, epoch)
		return
	case f.secondary.tuple.Kind != fabric.NONE: // if it is NONE, the fabric returns an error for the first address
		ev.Tuple = f.secondary.tuple
	}
	q := queued{f, ev}
	if q.mayGo() {
		t.ready = slices.Insert(t.ready, 0, q)
	} else {
		t.ready = append(t.ready, q)
	}
}

// mayGo reports whether the peer may get its answer now. If that starts a handshake, it takes a slot for it.
func (q queued) mayGo() bool {
	starts := q.ev.Kind == peer.Resolved && q.remote.peer.State() == peer.Resolving
	return !starts || q.remote.takeSlot()
}

// openReady passes on the answers in t.ready, and so starts handshakes, as far as the limit allows.
func (t *Table) openReady() {
	for len(t.ready) > 0 && t.ready[0].mayGo() {
		next := t.ready[0]
		t.ready = slices.Delete(t.ready, 0, 1)
		t.step(next.remote, next.ev)
	}
}

// takeSlot reports whether f may start its handshake now. leaveSlot must be called when the handshake has ended.
func (f *remotePeer) takeSlot() bool {
	if f.slot == 0 {
		f.slot, _ = f.t.opening.Begin()
		f.before = f.peer.Counts().Repeated
	}
	return f.slot > 0
}

// leaveSlot records that the handshake of f has ended. If f holds no slot, it does nothing.
func (f *remotePeer) leaveSlot() {
	if f.slot > 0 {
		f.t.opening.End(f.slot, f.peer.Counts().Repeated > f.before)
		f.slot = 0
	}
}

// Answered handles the agent's answer to Resolver.AskBlock. rank and fresh are those of the question. encoded is the
// encoded block; if there is none, failure is ErrEnded, ErrFailed or ErrRank. Answered resolves every waiting peer of
// the node whose address the block has. For the remaining peers it asks again.
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

// isNewer reports whether rank has been restarted more often according to b than this table knows.
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
