package peer

import (
	"math"
	"time"

	"ibrun/fabric"
)

// path is which of two networks a pair uses, if both ranks have two. The number counts the changes:
// even, the first network; odd, the second. Each packet carries its sender's, and the larger one
// counts, so two sides that change at once agree. Packets of the window do not belong to a network:
// what is not acknowledged is repeated by the other one.
//
//	first --own port down; or silence of a peer that runs--> second
//	second --own port up, and a probe by the first is answered, hold after the change--> first
type path struct {
	number        uint16
	down          bool         // our own first network
	first, second fabric.Tuple // where the peer is; zero: not known
	asked         bool         // the owner, for the second
	lacks         bool         // the peer has no second
	hold          time.Duration
	probe         time.Duration // when the first is tried next
	probing       bool          // it was tried since the last change
}

const (
	firstHold = 10 * time.Second // on the second network, before the first is tried again
	// longestHold is how many times that it is doubled up to: a port that flaps must not carry the
	// traffic back and forth.
	longestHold = 30
	// provenSilence is how often the agent must have said that a silent peer runs before the pair
	// changes: once may be the moment before its answer.
	provenSilence = 2
)

// Secondary reports whether the pair goes by the second network.
func (p *Peer) Secondary() bool { return p.Moves()%2 == 1 }

// Addresses are where the peer is by each network; zero: not known, or not by that one.
func (p *Peer) Addresses() (first, second fabric.Tuple) {
	if !p.dual() {
		return p.to, second
	}
	return p.path.first, p.path.second
}

func (p *Peer) dual() bool { return p.path != nil }

// Moves returns the number of the last change between the first and the second network that this rank knows of. If the
// number is odd, the pair uses the second network.
func (p *Peer) Moves() uint16 {
	if !p.dual() {
		return 0
	}
	return p.path.number
}

// locate keeps an address of the peer, which its kind says the network of.
func (p *Peer) locate(t fabric.Tuple) {
	p.to, p.known = t, true
	if !p.dual() {
		return
	}
	if t.Kind.Ethernet() {
		p.path.second, p.path.lacks = t, false
	} else {
		p.path.first = t
	}
	p.aim()
}

// nowhere forgets where the peer is.
func (p *Peer) nowhere() {
	p.known = false
	if a := p.path; a != nil {
		a.first, a.second, a.asked, a.lacks = fabric.Tuple{}, fabric.Tuple{}, false, false
	}
}

// aim chooses between the addresses that are known.
func (p *Peer) aim() {
	a := p.path
	switch none := (fabric.Tuple{}); {
	case p.Secondary() && a.second != none, a.first == none && a.second != none:
		p.to = a.second
	case a.first != none:
		p.to = a.first
	}
}

// wantSecond asks for the second address if it is needed and not known.
func (p *Peer) wantSecond() {
	a := p.path
	if p.Secondary() && a.second == (fabric.Tuple{}) && a.first != (fabric.Tuple{}) && !a.asked && !a.lacks {
		a.asked = true
		p.emit(Effect{Kind: ResolveSecondary, Least: p.epoch})
	}
}

// change goes to a later number.
func (p *Peer) change(number uint16) {
	before := p.Secondary()
	p.path.number = number
	if p.path.down && !p.Secondary() {
		p.path.number++ // below the largest, which is odd
	}
	p.path.probing = false
	p.aim()
	if p.Secondary() {
		if !before {
			p.path.hold = min(max(2*p.path.hold, p.cfg.Hold), longestHold*p.cfg.Hold)
		}
		p.path.probe = p.now + p.path.hold
	}
	if p.Secondary() != before {
		p.emitNews(Effect{Kind: Moved})
	}
	p.hurry()
}

// turn changes the network of itself. After the largest number the pair stays on the second one.
func (p *Peer) turn() {
	if p.path.number < math.MaxUint16 {
		p.change(p.path.number + 1)
	}
}

// hurry lets the peer hear of us by the present network: it repeats what is not answered, or says
// at least what has arrived.
func (p *Peer) hurry() {
	if p.retry.at != never && p.state != Idle && p.state != Resolving {
		p.retry.at = p.now
	}
	if p.win != nil {
		p.win.ackNow = true
	}
}

// wentDown: our own first network does not work. The number is above what the peer can have chosen
// meanwhile, so that it does not take us back there.
func (p *Peer) wentDown() {
	if !p.dual() || p.path.down {
		return
	}
	p.path.down = true
	switch n := p.path.number; {
	case !p.Secondary():
		p.change(n + 1)
	case n < math.MaxUint16:
		p.change(min(n, math.MaxUint16-2) + 2)
	}
}

// secondFound takes the owner's answer; NONE: the peer has no second address.
func (p *Peer) secondFound(t fabric.Tuple) {
	if !p.dual() || !p.path.asked {
		return
	}
	p.path.asked = false
	if p.path.lacks = t.Kind == fabric.NONE; p.path.lacks {
		return
	}
	p.path.second = t
	p.aim()
	if p.Secondary() {
		p.hurry()
	}
}

// receivedBy takes what a packet of the peer says of the network: the sender's number, and by which
// one it has come.
func (p *Peer) receivedBy(number uint16, from fabric.Tuple) {
	if !p.dual() {
		return
	}
	if number > p.path.number {
		p.change(number)
	}
	if p.path.probing && p.Secondary() && !p.path.down && !from.Kind.Ethernet() {
		p.turn()
	}
}

// silence is the agent's word that the peer runs, which does not answer us.
func (p *Peer) silence() {
	a := p.path
	if a != nil && p.retry.silent >= askAfter && p.retry.proofs >= provenSilence && !a.lacks &&
		a.first != (fabric.Tuple{}) && p.state != Resolving {
		p.turn()
	}
}

// probeAt is when the first network is to be tried.
func (p *Peer) probeAt() time.Duration {
	if !p.dual() || !p.Secondary() || p.win == nil || p.path.down || p.path.first == (fabric.Tuple{}) ||
		p.path.number == math.MaxUint16 {
		return never
	}
	return p.path.probe
}

// tryFirst asks the peer for an answer by the first network.
func (p *Peer) tryFirst() {
	p.path.probing, p.path.probe = true, p.now+p.path.hold
	p.acknowledgeTo(p.path.first, flagAsk)
}

// acknowledgeTo sends an ACK beside the pair's own: it may be lost, so nothing counts as
// acknowledged.
func (p *Peer) acknowledgeTo(to fabric.Tuple, flags uint8) {
	w := p.win
	owed, at, now := w.owed, w.ackAt, w.ackNow
	k := packet{kind: PacketAck, flags: flags}
	p.acknowledged(&k)
	w.owed, w.ackAt, w.ackNow = owed, at, now
	p.transmitTo(to, &k)
}

// answer answers an ACK that asks for it: by the network that it has come by.
func (p *Peer) answer(from fabric.Tuple) {
	if p.dual() && p.Secondary() && !from.Kind.Ethernet() && !p.path.down {
		p.acknowledgeTo(from, 0)
		return
	}
	p.win.ackNow = true
}
