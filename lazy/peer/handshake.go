package peer

import "ibrun/fabric"

// address stores the address of the peer from a packet or an answer of the agent. From a STATE, it also stores the MTU
// and the window of the peer.
func (p *Peer) address(c *cue) {
	if c.tuple.Kind != fabric.NONE {
		p.locate(c.tuple)
	}
	if c.kind == PacketState {
		p.mtu = min(p.cfg.MTU, int(c.mtu))
		p.room = c.window
	}
}

// own returns the address of this rank on the network of the peer's address to.
func (p *Peer) own(to fabric.Tuple) fabric.Tuple {
	if to.Kind.Ethernet() && p.cfg.Secondary != (fabric.Tuple{}) {
		return p.cfg.Secondary
	}
	return p.cfg.Tuple
}

// transmitState sends STATE. echo is the stamp of the peer's STATE that has caused this one. echo is 0 if the timer has
// caused it, because the time since that stamp would not measure the network.
func (p *Peer) transmitState(flags uint8, echo uint16) {
	k := packet{kind: PacketState, flags: flags, mtu: uint16(p.cfg.MTU), stamp: stamp(p.now), echo: echo,
		tuple: p.own(p.to)}
	if p.untaken <= p.cfg.Inbox {
		k.window = uint8(p.cfg.Window)
	}
	p.transmit(&k)
}

func (p *Peer) transmitFin() {
	p.transmit(&packet{kind: PacketFin, attempt: p.fin.attempt, count: p.fin.sent})
}

// resend sends the unanswered handshake packet or FIN again, or resends segments, and schedules the next resend.
func (p *Peer) resend() {
	switch p.state {
	case Wait:
		p.counts.Repeated++
		p.transmitState(flagAnswer, 0)
	case Half:
		p.counts.Repeated++
		p.transmitState(flagHaveYou|flagAnswer, 0)
	case Closing:
		p.transmitFin()
	case Up:
		if p.win.under() > 0 {
			p.counts.TimedOut++
			p.win.timedOut()
		} else {
			p.acknowledge(flagAsk)
		}
		p.retry.again(p.now, doubled(p.rto(), p.retry.tries+1))
		return
	}
	p.retry.again(p.now, p.jitter(doubled(p.scratch.pace.first(firstRetry), p.retry.tries+1)))
}
