package peer

import (
	"math"
	"time"

	"ibrun/fabric"
)

// path selects one of two networks for a pair. Peer.path is nil if this rank has only one network. The path number
// counts the changes of the network: the pair uses the first network if the number is even, and the second one if it is
// odd. Each packet carries the path number of its sender. Both ranks use the larger number, so they agree even if both
// change the network at once. After a change, unacknowledged segments are resent on the other network.
//
//	first --the first network of a rank has failed, or a running peer does not answer--> second
//	second --the first network works, and the peer has answered a probe on it--> first
type path struct {
	number        uint16        // path number: changes of the network so far
	down          bool          // the first network of this rank does not work
	first, second fabric.Tuple  // addresses of the peer on each network; zero if not known
	asked         bool          // the owner has been asked for the second address and has not answered
	lacks         bool          // the peer has no second address
	hold          time.Duration // time on the second network before the next probe of the first one
	probe         time.Duration // time of the next probe of the first network, on the clock of Step
	probing       bool          // the first network was probed since the last change
}

const (
	firstHold = 10 * time.Second // default of Config.Hold
	// longestHold is the maximum of path.hold as a multiple of Config.Hold. path.hold doubles with each change to
	// the second network, so that a first network that fails repeatedly does not cause a change each time.
	longestHold = 30
	// provenSilence is how many times the agent must confirm that a silent peer runs before the pair changes the
	// network. After the first time, the answer of the peer may still be on its way.
	provenSilence = 2
)

// Secondary reports whether the pair uses the second network.
func (p *Peer) Secondary() bool { return p.Moves()%2 == 1 }

// Addresses returns the addresses of the peer on both networks. An address is zero if it is not known or does not
// exist. If this rank has one network, first is the address of the peer.
func (p *Peer) Addresses() (first, second fabric.Tuple) {
	if !p.dual() {
		return p.to, second
	}
	return p.path.first, p.path.second
}

// dual reports whether this rank has two networks.
func (p *Peer) dual() bool { return p.path != nil }

// Moves returns the number of the last change between the first and the second network that this rank knows of. If the
// number is odd, the pair uses the second network.
func (p *Peer) Moves() uint16 {
	if !p.dual() {
		return 0
	}
	return p.path.number
}

// locate stores an address of the peer. If this rank has two networks, an Ethernet address belongs to the second one.
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

// nowhere forgets all addresses of the peer.
func (p *Peer) nowhere() {
	p.known = false
	if a := p.path; a != nil {
		a.first, a.second, a.asked, a.lacks = fabric.Tuple{}, fabric.Tuple{}, false, false
	}
}

// aim sets p.to to the known address on the network in use or, if only the other address is known, to that one.
func (p *Peer) aim() {
	a := p.path
	switch none := (fabric.Tuple{}); {
	case p.Secondary() && a.second != none, a.first == none && a.second != none:
		p.to = a.second
	case a.first != none:
		p.to = a.first
	}
}

// wantSecond asks the owner for the peer's second address if the pair needs it and it is not known.
func (p *Peer) wantSecond() {
	a := p.path
	if p.Secondary() && a.second == (fabric.Tuple{}) && a.first != (fabric.Tuple{}) && !a.asked && !a.lacks {
		a.asked = true
		p.emit(Effect{Kind: ResolveSecondary, Least: p.epoch})
	}
}

// change sets a higher path number, which may change the network. If the number is even and the first network of this
// rank is down, change uses the next number.
func (p *Peer) change(number uint16) {
	before := p.Secondary()
	p.path.number = number
	if p.path.down && !p.Secondary() {
		p.path.number++ // cannot overflow: the maximum is odd
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

// turn changes to the other network. After the maximum path number, the pair stays on the second network.
func (p *Peer) turn() {
	if p.path.number < math.MaxUint16 {
		p.change(p.path.number + 1)
	}
}

// hurry makes this rank send a packet on the new network soon: it schedules a resend if an answer is awaited, and an
// acknowledgement if the connection is open.
func (p *Peer) hurry() {
	if p.retry.at != never && p.state != Idle && p.state != Resolving {
		p.retry.at = p.now
	}
	if p.win != nil {
		p.win.ackNow = true
	}
}

// wentDown handles the failure of the first network of this rank. If the pair uses the second network already, wentDown
// adds 2 to the path number, so that a return to the first network that the peer begins at the same time has a lower
// number.
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

// secondFound handles the owner's answer to ResolveSecondary. The Kind of t is NONE if the peer has no second address.
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

// receivedBy handles the path number of a packet of the peer, and the address from which it came. If the packet has
// come by the first network after a probe, and the first network of this rank works, the pair returns to the first
// network.
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

// silence changes the network if the peer has not answered this rank for long. It is called after the agent has
// confirmed that the peer runs.
func (p *Peer) silence() {
	a := p.path
	if a != nil && p.retry.silent >= askAfter && p.retry.proofs >= provenSilence && !a.lacks &&
		a.first != (fabric.Tuple{}) && p.state != Resolving {
		p.turn()
	}
}

// probeAt returns the time at which the first network is to be probed, or never.
func (p *Peer) probeAt() time.Duration {
	if !p.dual() || !p.Secondary() || p.win == nil || p.path.down || p.path.first == (fabric.Tuple{}) ||
		p.path.number == math.MaxUint16 {
		return never
	}
	return p.path.probe
}

// tryFirst probes the first network with an ACK that asks for an answer.
func (p *Peer) tryFirst() {
	p.path.probing, p.path.probe = true, p.now+p.path.hold
	p.acknowledgeTo(p.path.first, flagAsk)
}

// acknowledgeTo sends an ACK to an address on the network that is not in use. The ACK may be lost, so the pair still
// sends the acknowledgement that is due on the other network.
func (p *Peer) acknowledgeTo(to fabric.Tuple, flags uint8) {
	w := p.win
	owed, at, now := w.owed, w.ackAt, w.ackNow
	k := packet{kind: PacketAck, flags: flags}
	p.acknowledged(&k)
	w.owed, w.ackAt, w.ackNow = owed, at, now
	p.transmitTo(to, &k)
}

// answer sends the ACK that the peer has asked for. If the pair uses the second network, and the request has come by
// the first one from the address from, answer uses the first network unless it is down.
func (p *Peer) answer(from fabric.Tuple) {
	if p.dual() && p.Secondary() && !from.Kind.Ethernet() && !p.path.down {
		p.acknowledgeTo(from, 0)
		return
	}
	p.win.ackNow = true
}
