package lazy

import (
	"ibrun/fabric"
	"ibrun/lazy/peer"
)

// secondary is a peer's second address, which ranks on Ethernet need of one whose
// first is elsewhere.
type secondary struct {
	tuple fabric.Tuple // NONE: it has none
	epoch uint16       // the epoch whose it is; 0: not known
	asked uint16       // the epoch whose it will be; 0: nobody was asked
}

// askSecondary asks for a peer's second address. The peer has put it before its
// first, which has been found.
func (t *Table) askSecondary(f *remotePeer, epoch uint16) {
	if f.secondary.asked != 0 {
		f.secondary.asked = epoch
		return
	}
	f.secondary.asked = epoch
	t.count(func(s *sums) { s[countLookups]++ })
	// a lost agent ends the world
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
	t.count(func(s *sums) { s[countAddressBytes] += uint64(len(encoded)) })
	tuple, _, err := fabric.ParseTuple(encoded)
	if err != nil {
		tuple = fabric.Tuple{Kind: fabric.NONE}
	}
	f.secondary.tuple, f.secondary.epoch = tuple, epoch
	if !t.fabric.Tuple().Kind.Ethernet() {
		f.foundSecond()
		return
	}
	if first, at, ok := t.known(rank, epoch); ok {
		t.resolved(f, first, at, false)
	}
}
