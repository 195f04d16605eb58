package lazy

import (
	"ibrun/bootstrap/rankwire"
	"ibrun/fabric"
	"ibrun/job"
	"ibrun/lazy/peer"
)

// SecondaryKey is what a rank puts its second address under, Config.SecondaryOpened. Keys
// of users do not begin with a zero byte. The name is on the wire between ranks, which may be
// programs built at different times: it stays.
const SecondaryKey = "\x00beside"

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
	_ = t.cfg.Agent.Ask(rankwire.Ask{Rank: job.Slot(f.rank), Key: SecondaryKey, Least: t.cfg.Least})
}

// answeredSecondary takes the agent's answer.
func (t *Table) answeredSecondary(m rankwire.Answer) {
	rank := uint32(m.Rank)
	if !t.isFar(rank) {
		return
	}
	f := t.remotePeer(rank)
	epoch := f.secondary.asked
	if epoch == 0 {
		return
	}
	f.secondary.asked = 0
	if m.What != rankwire.Found {
		t.in.lose(rank, t.about(rank, reason(m.What)))
		t.step(f, peer.Event{Kind: peer.Unresolved, Cause: causeOf(m.What)})
		return
	}
	t.count(func(s *sums) { s[countAddressBytes] += uint64(len(m.Value)) })
	tuple, _, err := fabric.ParseTuple(m.Value)
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
