package lazy

import (
	"ibrun/fabric"
	"ibrun/internal/job"
	"ibrun/lazy/peer"
)

// secondary is the second address of a peer, which is an Ethernet address. Ranks that only have Ethernet use it if the
// first address of the peer is of another kind. Ranks with two fabrics use it while their first fabric is down.
type secondary struct {
	tuple fabric.Tuple // its Kind is NONE if the peer has no second fabric
	epoch uint16       // epoch of the peer with this address; 0 if the address is not known
	asked uint16       // epoch of the peer for which the agent has been asked; 0 if no question is open
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

// AnsweredSecondary handles the agent's answer to Resolver.AskSecondary. encoded is the encoded tuple of the second
// address; if there is none, failure is ErrEnded, ErrFailed or ErrRank.
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
