package peer

import (
	"ibrun/fabric"
	"ibrun/internal/job"
)

// cue contains the arguments of the actions of a row. Most of them come from a received packet.
type cue struct {
	packet
	gen   uint32
	from  fabric.Tuple
	cause Cause
}

// arrived handles a received packet: it checks the epochs and the generation, and passes the packet to the table.
// docs/dev/states.md lists the rules.
func (p *Peer) arrived(ev Event) {
	var c cue
	if !c.parse(ev.Packet, ev.Body) || c.kind == PacketReject && c.epoch != ev.SrcEpoch || c.kind != PacketReject &&
		ev.Gen == 0 {
		p.counts.Malformed++
		return
	}
	c.gen, c.from = ev.Gen, ev.Tuple
	if ev.DstEpoch != p.cfg.Epoch {
		if ev.DstEpoch < p.cfg.Epoch && c.asksAnswer() {
			p.reject(ev.SrcEpoch, 0, ev.Tuple)
		}
		return
	}
	if ev.SrcEpoch < p.epoch || ev.SrcEpoch == 0 {
		return
	}
	if ev.SrcEpoch > p.epoch {
		p.succeeded(ev.SrcEpoch)
	}
	p.receivedBy(ev.Path, ev.Tuple)
	if c.kind == PacketReject {
		if c.gen >= p.gen && (c.tuple.Kind != fabric.NONE || p.state != Resolving) {
			p.apply(inReject, &c)
		}
		return
	}
	p.inGeneration(&c)
}

// asksAnswer reports whether the sender of the packet waits for an answer.
func (k *packet) asksAnswer() bool {
	return k.kind == PacketState || k.kind == PacketSegment || k.kind == PacketFin || k.kind == PacketAck &&
		k.flags&flagAsk != 0
}

// inGeneration handles a packet of the current epochs. If the generation of the packet is current or new, it applies
// the matching input of the table. If the generation has ended, it applies inStale if the sender waits for an answer.
func (p *Peer) inGeneration(c *cue) {
	left := p.state == Idle || p.state == Resolving // in these states, the current generation has ended, too
	switch {
	case c.gen > p.gen:
		if c.kind != PacketState || c.flags&flagHaveYou != 0 {
			return
		}
		p.drop(WasReset)
		p.enter(c.gen)
	case c.gen < p.gen, left && c.kind != PacketFin:
		if c.asksAnswer() {
			p.apply(inStale, c)
		}
		return
	}
	switch c.kind {
	case PacketState:
		switch c.flags {
		case flagAnswer:
			p.apply(inState0, c)
		case flagHaveYou:
			p.apply(inState1, c)
		default:
			p.apply(inState1Ack, c)
		}
	case PacketSegment:
		p.apply(inSegment, c)
	case PacketAck:
		p.apply(inAck, c)
	case PacketFin:
		if p.decide(c) {
			p.apply(inFinGrant, c)
		} else {
			p.apply(inFinRefuse, c)
		}
	case PacketFinAck:
		if c.attempt == p.fin.attempt {
			p.apply(inFinAck, c)
		}
	case PacketFinNak:
		if c.attempt == p.fin.attempt {
			p.apply(inFinNak, c)
		}
	}
}

// decide reports whether a FIN of the peer is granted. A resent FIN gets the same decision. The peer starts an attempt
// to close only after the previous one was refused, so only the last decision is stored.
func (p *Peer) decide(c *cue) bool {
	f := &p.fin
	if c.attempt > f.decided && p.state != Wait {
		f.decided = c.attempt
		switch p.state {
		case Half, Up:
			f.granted = p.pending == 0 && c.count == f.received && !p.win.halfway() && !p.claimed()
		case Closing:
			f.granted = c.count == f.received && !p.win.halfway() && !p.claimed()
		default:
			f.granted = true
		}
	}
	return c.attempt == f.decided && f.granted
}

// enter sets the current generation, and resets the state of closing the connection.
func (p *Peer) enter(gen uint32) {
	p.gen = gen
	p.fin = closing{}
}

// succeeded handles a newer epoch of the peer: its rank runs the next program, or was restarted.
func (p *Peer) succeeded(epoch uint16) {
	if p.epoch != 0 && job.StartOf(epoch) > job.StartOf(p.epoch) {
		p.renewed(epoch)
		return
	}
	p.drop(Restarted)
	p.adopt(epoch)
	p.asked = false
	if p.state == Resolving {
		p.question(false) // the answer to the first question may be too old
	}
}

// renewed handles a restart of the peer. The new process does not know what was sent to the old one, so all
// unacknowledged messages are lost, even if they are only staged.
func (p *Peer) renewed(epoch uint16) {
	p.emit(Effect{Kind: Renewed, Least: epoch})
	p.tell(news{kind: Failed})
	open, lost, warm := p.win != nil, p.pending, p.warm
	p.forget()
	p.become(Idle)
	p.warm, p.untaken = warm, 0
	switch {
	case lost > 0:
		p.emit(Effect{Kind: Failed, Cause: Restarted, Lost: lost, Least: epoch})
	case open:
		p.emit(Effect{Kind: Closed})
	}
	p.adopt(epoch)
}

// adopt sets the peer's epoch, forgets its address, and starts again at generation 0.
func (p *Peer) adopt(epoch uint16) {
	p.epoch = epoch
	p.nowhere()
	p.enter(0)
}

// resolved handles an answer of the agent with an address of the peer. If the Kind of the address is NONE, the peer has
// none.
func (p *Peer) resolved(ev Event) {
	asked := p.asked
	p.asked = false
	if ev.Fresh && ev.Epoch == p.epoch {
		p.retry.proof(p.now)
		p.silence()
	}
	switch {
	case ev.Tuple.Kind == fabric.NONE:
		if asked {
			p.apply(inMissing, &cue{cause: NoRank})
		}
		return
	case ev.Epoch < p.epoch:
		if p.state == Resolving {
			p.retry.begin(p.now, askEvery)
		}
		return
	case ev.Epoch > p.epoch && p.state == Resolving && (p.epoch == 0 || job.StartOf(ev.Epoch) == job.StartOf(p.epoch)):
		p.adopt(ev.Epoch)
	case ev.Epoch > p.epoch:
		p.succeeded(ev.Epoch)
	case !asked:
		return // the peer has sent its address meanwhile
	}
	p.apply(inFound, &cue{packet: packet{tuple: ev.Tuple}})
}

// question asks the agent for the address of the peer.
func (p *Peer) question(fresh bool) {
	p.asked = true
	p.emit(Effect{Kind: Resolve, Least: p.epoch, Fresh: fresh})
}

// reject sends a REJECT to an address, with the epoch of this rank. epoch is that of the receiver. gen is the last
// generation that has ended, or 0 if the receiver has addressed an older epoch of this rank.
func (p *Peer) reject(epoch uint16, gen uint32, to fabric.Tuple) {
	k := packet{kind: PacketReject, epoch: p.cfg.Epoch, tuple: p.own(to)}
	p.emit(Effect{Kind: Transmit, Packet: k.kind, Gen: gen, DstEpoch: epoch, To: to, Body: p.body(&k),
		Path: p.Moves()})
}

// apply finds the row of an input in the current state, performs its actions, and changes the state.
func (p *Peer) apply(in input, c *cue) {
	r := index[p.state][in]
	if p.trace != nil {
		p.trace(r)
	}
	for _, a := range r.actions {
		p.do(a, c)
	}
	p.become(r.next)
}

func (p *Peer) become(s State) { p.state = s }

func (p *Peer) do(a action, c *cue) {
	switch a {
	case doAsk:
		p.question(false)
	case doAddress:
		p.address(c)
	case doOpen:
		p.enter(p.gen + 1)
		p.transmitState(flagAnswer, 0)
		p.retry.begin(p.now, p.jitter(p.scratch.pace.first(firstRetry)))
	case doOffer:
		p.asked = false // the answer of the agent may be older than the STATE
		p.transmitState(flagHaveYou|flagAnswer, c.stamp)
		p.retry.begin(p.now, p.jitter(p.scratch.pace.first(firstRetry)))
	case doRepeat:
		p.transmitState(flagHaveYou|flagAnswer, c.stamp)
	case doConfirm:
		p.transmitState(flagHaveYou, c.stamp)
	case doUp:
		p.answered(c)
		p.retry.stop()
		p.asked, p.warm = false, false
		p.win = newWindow(p.room)
		p.win.shut = p.untaken > p.cfg.Inbox
		p.emitNews(Effect{Kind: Opened})
	case doTake:
		p.take(c)
	case doResend:
		p.resend()
	case doFin:
		p.fin.attempt++
		p.transmitFin()
		p.retry.begin(p.now, p.jitter(p.scratch.pace.first(firstRetry)))
	case doGrant:
		p.transmit(&packet{kind: PacketFinAck, attempt: c.attempt})
	case doRefuse:
		p.transmit(&packet{kind: PacketFinNak, attempt: c.attempt})
	case doBack:
		p.warm = false // the connection is open
		p.retry.stop()
	case doClose, doReset:
		p.drop(WasReset)
	case doFail:
		p.fail(c.cause)
	case doReject:
		p.reject(p.epoch, p.gen, c.from)
	case doLeave:
		p.enter(max(p.gen, c.gen))
	}
}
