package lazy

import (
	"slices"

	"ibrun/fabric"
	"ibrun/internal/job"
	"ibrun/lazy/peer"
)

// resolve finds the address of f and queues it for the Peer of f. The epoch of f must be at least least. If fresh is
// not set, resolve first looks in the blocks that the table has. If fresh is set, or if the blocks lack the address,
// resolve asks the agent, unless the agent has been asked for the same block already. The answer goes to Answered.
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

// known returns the address and the epoch of rank from the blocks that the table has. ok is false if no block contains
// rank, or if its epoch there is less than least.
func (t *Table) known(rank uint32, least uint16) (tuple fabric.Tuple, epoch uint16, ok bool) {
	if b := t.blocks[t.nodeOf(rank)]; b != nil {
		tuple, epoch, ok = b.Tuple(rank)
	}
	return tuple, epoch, ok && epoch >= least
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

// resolved queues the address of f for its Peer, which starts the handshake with that address when openReady passes it
// on. If the first fabric of this rank is Ethernet and the address is not, resolved uses the second address of f. If
// that one is not known, it asks the agent for it. If tuple.Kind is NONE, f cannot be reached.
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

// mayGo reports whether the event may be passed to the Peer now. If the event starts a handshake, mayGo takes a ticket
// of Table.opening for it, which limits the number of handshakes.
func (q queued) mayGo() bool {
	starts := q.ev.Kind == peer.Resolved && q.remote.peer.State() == peer.Resolving
	return !starts || q.remote.takeSlot()
}

// takeSlot takes a ticket of Table.opening for the handshake of f, unless f has one. It returns false if the limit is
// reached. leaveSlot must be called when the handshake has ended.
func (f *remotePeer) takeSlot() bool {
	if f.slot == 0 {
		f.slot, _ = f.t.opening.Begin()
		f.before = f.peer.Counts().Repeated
	}
	return f.slot > 0
}

// leaveSlot records that the handshake of f has ended. If f has no ticket, leaveSlot does nothing.
func (f *remotePeer) leaveSlot() {
	if f.slot > 0 {
		f.t.opening.End(f.slot, f.peer.Counts().Repeated > f.before)
		f.slot = 0
	}
}

// askSecondary asks the agent for the second address of f in the given epoch. If a question is open already, it only
// updates the epoch. The peer publishes its second address before the first one. So if the first one is known, the
// agent can find the second one.
func (t *Table) askSecondary(f *remotePeer, epoch uint16) {
	if f.secondary.asked != 0 {
		f.secondary.asked = epoch
		return
	}
	f.secondary.asked = epoch
	t.count(func(s *sums) { s[job.CountLookups]++ })
	// Ignore the error: it means that the agent is lost, which ends the job.
	_ = t.cfg.Resolver.AskSecondary(f.rank, t.cfg.Least)
}
