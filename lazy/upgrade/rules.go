package upgrade

import "encoding/binary"

// cue is what an input brings along for its actions.
type cue struct {
	token Token
	offer []byte
	why   error
	have  uint64
}

// look looks at an event before the table does: is it about the stream that the
// pair has, and does it come to the rank that plays this part.
func (p *Pair) look(ev Event) {
	c := cue{ev.Token, ev.Offer, ev.Why, ev.Have}
	about := p.Has(ev.Token)
	switch ev.Kind {
	case Opened:
		p.up = true
		if p.asked == staged {
			p.asked = sent
		}
	case Closed:
		p.up = false
		p.apply(stream, inRested, &c)
		if p.asked == sent {
			p.apply(stream, inUnanswered, &c)
		}
	case Failed:
		p.up = false
		p.apply(stream, inReset, &c)
	case Received:
		p.received(ev)
	case OfferMade:
		p.apply(stream, inOfferMade, &c)
	case OfferFailed:
		p.apply(stream, inOfferFailed, &c)
	case Connected:
		if p.Awaits(ev.Token) {
			in := inConnected
			if !p.cfg.Dials {
				in = inAccepted
			}
			p.kept = ev.Kept
			p.apply(stream, in, &c)
		}
	case DialFailed:
		if p.Awaits(ev.Token) {
			p.apply(stream, inDialFailed, &c)
		}
	case Rest:
		if !ev.Busy {
			p.apply(stream, inRest, &c)
		}
	case EndRead:
		if about {
			p.apply(incoming, inEndMark, &c)
		}
	case Lost:
		switch {
		case !about && ev.Kept: // what was on it went another way
		case !about || ev.Over:
			p.emit(Effect{Kind: End, Why: ev.Why})
		case ev.PeerEnded:
			p.apply(stream, inPeerEnded, &c)
		case p.kept:
			p.apply(stream, inCut, &c)
		default:
			p.apply(stream, inLost, &c)
		}
	case Stopped:
		if about {
			p.have = ev.Have
			p.apply(stream, inStopped, &c)
		}
	case Moved:
		p.apply(stream, inMoved, &c)
	}
}

// received takes a control message of the peer.
func (p *Pair) received(ev Event) {
	m, ok := parse(ev.Msg)
	if !ok {
		return
	}
	c := cue{token: m.token}
	switch m.kind {
	case Want:
		if !p.cfg.Dials {
			p.apply(stream, inWant, &c)
		}
		return
	case Offer:
		if p.cfg.Dials && m.token != p.token && m.token != (Token{}) {
			c.offer = append([]byte(nil), m.rest...)
			p.apply(stream, inOffer, &c)
		}
		return
	case GiveUp:
		if m.token == p.token {
			c.why = remote(m.rest)
			p.apply(stream, inGiveUp, &c)
		}
		return
	}
	if m.token != p.token || m.token == (Token{}) {
		return
	}
	switch m.kind {
	case Taken:
		p.apply(stream, inTaken, &c)
	case Switch:
		switch {
		case p.HasStream():
			p.apply(incoming, inSwitch, &c)
		case p.Resuming():
			p.apply(incoming, inMissed, &c)
		}
	case Leave:
		in := inLeave
		if ev.Busy && p.HasStream() {
			in = inLeaveBusy
		}
		p.apply(stream, in, &c)
	case Stay:
		p.apply(stream, inStay, &c)
	case Returned:
		p.apply(outgoing, inReturned, &c)
	case Resume:
		c.have = binary.BigEndian.Uint64(m.rest)
		if p.HasStream() && !p.kept {
			c.why = ErrBroken
			p.apply(stream, inLost, &c)
			return
		}
		p.apply(stream, inResume, &c)
	case Broke:
		c.why = ErrBroken
		p.apply(stream, inBroken, &c)
	}
}

// apply finds the row, does what it says and goes where it says. The state changes
// first: an action may look at it, or apply a row of another region.
func (p *Pair) apply(of region, in input, c *cue) {
	r := index[p.at[of]][in]
	if p.trace != nil {
		p.trace(r)
	}
	p.at[of] = r.next
	for _, a := range r.actions {
		p.do(a, c)
	}
}

func (p *Pair) do(a action, c *cue) {
	switch a {
	case doAsk:
		p.ask()
	case doOffer:
		p.emit(Effect{Kind: MakeOffer})
	case doKeep:
		p.token, p.offer = c.token, c.offer
	case doDial:
		p.token = c.token
		p.emit(Effect{Kind: Dial, Token: c.token, Offer: c.offer})
	case doTaken:
		p.send(Taken, "")
	case doStream:
		p.failures = 0
		p.emit(Effect{Kind: Notify})
	case doGiveUp:
		p.failed(c.why)
		p.send(GiveUp, reason(c.why))
		p.forget()
		p.emit(Effect{Kind: Notify})
	case doFail:
		p.failed(c.why)
		p.forget()
		p.emit(Effect{Kind: Notify})
	case doClose:
		p.emit(Effect{Kind: Close})
	case doBreak:
		p.emit(Effect{Kind: Close, Why: c.why})
	case doForget:
		p.forget()
	case doPardon:
		p.failures, p.why = 0, nil
	case doSwitch:
		p.send(Switch, "")
	case doLeave:
		p.send(Leave, "")
		p.leaves = true
		p.apply(outgoing, inMark, c)
	case doStay:
		p.send(Stay, "")
	case doMark:
		p.emit(Effect{Kind: Mark})
	case doRead:
		p.emit(Effect{Kind: Read})
	case doReturned:
		p.send(Returned, "")
	case doNotify:
		p.emit(Effect{Kind: Notify})
	case doBroken:
		p.send(Broke, "")
	case doEnd:
		p.emit(Effect{Kind: End, Why: c.why})
	case doAlarm:
		p.emit(Effect{Kind: End, Why: c.why, Alarm: true})
	case doIdle:
		p.emit(Effect{Kind: Idle})
	case doStop:
		p.emit(Effect{Kind: Stop})
	case doPeers:
		p.resumed, p.peers = true, c.have
	case doResume:
		p.send(Resume, string(binary.BigEndian.AppendUint64(nil, p.have)))
	case doAgain:
		p.emit(Effect{Kind: Again, Have: p.peers})
	case doLeft:
		p.peerLeaves = true
	case doLose:
		if p.kept {
			p.emit(Effect{Kind: Lose})
		}
	case doStayed:
		p.leaves = false
	}
}

// rules are what is looked at before the table. They are part of docs/dev/upgrade.md.
var rules = []string{
	"WANT counts at the higher rank only, OFFER at the lower one only.",
	"An OFFER with the token of the present attempt or stream is a repetition: ignore.",
	"GIVEUP counts if its token is that of the present attempt or stream (zero while there is none).",
	"Any other control counts if its token is that of the present attempt or stream: what was sent to an earlier " +
		"epoch of this rank may still arrive, and is not about the stream that this one has.",
	"A dial that ends and a stream that is accepted count if their token is that of the present attempt. Any other " +
		"stream is closed by the rank that made it.",
	"A stream that fails and is not the present one, or of a pair that has ended: the pair ends, and nobody is told " +
		"again. If what was written to it is kept, a stream that is not the present one says nothing.",
	"Rest counts if no sender is at work.",
	"SWITCH counts if the stream is there and works.",
	"When a connection closes, WANT or OFFER is sent again, in the next one, if it was sent in this one and there is " +
		"no stream yet: the peer may be another epoch, which has not received it.",
	"A message goes by stream when our direction does. Before that it asks for the stream if it is longer than " +
		"16 KiB, if the window was full since the last stream, or if what was sent has been worth a stream since " +
		"then. It moves our direction if the stream is there. A message longer than 16 KiB waits for that.",
	"What is worth a stream: messages count, the more the longer they are, what they count is forgotten at so " +
		"much a second, and the rest has reached the limit of the fabric.",
	"RESUME counts as a failure of the stream if this side does not keep what it has written.",
	"Messages wait while the pair resumes.",
	"While the stream is being given up, short messages go by datagram if our direction does, and all others wait.",
}
