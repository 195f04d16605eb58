package lazy

import (
	"ibrun/bootstrap/wire"
	"ibrun/fabric"
	"ibrun/lazy/peer"
)

// BesideKey is what a rank puts its second address under, Config.Besides. Keys
// of users do not begin with a zero byte.
const BesideKey = "\x00beside"

// beside is a peer's second address, which ranks on Ethernet need of one whose
// first is elsewhere.
type beside struct {
	tuple fabric.Tuple // NONE: it has none
	epoch uint16       // the incarnation whose it is; 0: not known
	asked uint16       // the incarnation whose it will be; 0: nobody was asked
}

// askBeside asks for a peer's second address. The peer has put it before its
// first, which has been found.
func (t *Table) askBeside(f *far, epoch uint16) {
	if f.beside.asked != 0 {
		f.beside.asked = epoch
		return
	}
	f.beside.asked = epoch
	t.count(func(s *sums) { s[countLookups]++ })
	_ = t.cfg.Agent.Ask(wire.Ask{Rank: f.rank, Key: BesideKey, Least: t.cfg.Least}) // a lost agent ends the world
}

// answeredBeside takes the agent's answer.
func (t *Table) answeredBeside(m wire.Answer) {
	if !t.isFar(m.Rank) {
		return
	}
	f := t.far(m.Rank)
	epoch := f.beside.asked
	if epoch == 0 {
		return
	}
	f.beside.asked = 0
	if m.What != wire.Found {
		t.in.lose(m.Rank, t.about(m.Rank, reason(m.What)))
		t.step(f, peer.Event{Kind: peer.Unresolved, Cause: causeOf(m.What)})
		return
	}
	t.count(func(s *sums) { s[countAddressBytes] += uint64(len(m.Value)) })
	tuple, _, err := fabric.ParseTuple(m.Value)
	if err != nil {
		tuple = fabric.Tuple{Kind: fabric.NONE}
	}
	f.beside.tuple, f.beside.epoch = tuple, epoch
	if first, at, ok := t.known(m.Rank, epoch); ok {
		t.resolved(f, first, at, false)
	}
}
