package upgrade

import (
	"encoding/binary"
	"fmt"
)

// cue is what an input brings along for its actions.
type cue struct {
	token Token
	offer []byte
	why   error
	have  uint64
}

// look checks an event before the table handles it: whether the event is about the current stream of the pair, and
// whether this rank has the role that handles such events. docs/dev/upgrade.md lists the rules.
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
			c.why = fmt.Errorf("the other side could not: %s", m.rest)
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
		switch a := a.(type) {
		case Control:
			p.send(a, "")
		case EffectKind:
			p.emit(Effect{Kind: a})
		case step:
			steps[a].do(p, c)
		}
	}
}

// meaning defines a step: its name in docs/dev/upgrade.md, and the function that does it.
type meaning struct {
	name string
	do   func(*Pair, *cue)
}

// steps defines all steps.
var steps [stepCount]meaning

func init() { // an initializer would refer to itself: doLeave calls apply, which uses steps
	steps = [stepCount]meaning{
		doAsk:  {"send WANT or OFFER", func(p *Pair, _ *cue) { p.ask() }},
		doKeep: {"keep offer and token", func(p *Pair, c *cue) { p.token, p.offer = c.token, c.offer }},
		doDial: {"keep the token, Dial", func(p *Pair, c *cue) {
			p.token = c.token
			p.emit(Effect{Kind: Dial, Token: c.token, Offer: c.offer})
		}},
		doStream: {"failures 0, Notify", func(p *Pair, _ *cue) {
			p.failures = 0
			p.emit(Effect{Kind: Notify})
		}},
		doGiveUp: {"failures + 1, send GIVEUP, forget the attempt, Notify", func(p *Pair, c *cue) {
			text := c.why.Error()
			p.send(GiveUp, text[:min(len(text), longestReason)])
			p.failed(c.why)
		}},
		doFail:   {"failures + 1, forget the attempt, Notify", func(p *Pair, c *cue) { p.failed(c.why) }},
		doBreak:  {"Close with the peer's fault", func(p *Pair, c *cue) { p.emit(Effect{Kind: Close, Why: c.why}) }},
		doForget: {"forget token and directions", func(p *Pair, _ *cue) { p.forget() }},
		doPardon: {"failures 0", func(p *Pair, _ *cue) { p.failures, p.why = 0, nil }},
		doLeave: {"send LEAVE, our direction marks", func(p *Pair, c *cue) {
			p.send(Leave, "")
			p.leaves = true
			p.apply(outgoing, inMark, c)
		}},
		doEnd:   {"End", func(p *Pair, c *cue) { p.emit(Effect{Kind: End, Why: c.why}) }},
		doAlarm: {"End with an alarm", func(p *Pair, c *cue) { p.emit(Effect{Kind: End, Why: c.why, Alarm: true}) }},
		doPeers: {"keep what the peer has", func(p *Pair, c *cue) { p.resumed, p.peers = true, c.have }},
		doResume: {"send RESUME", func(p *Pair, _ *cue) {
			p.send(Resume, string(binary.BigEndian.AppendUint64(nil, p.have)))
		}},
		doAgain:  {"Again", func(p *Pair, _ *cue) { p.emit(Effect{Kind: Again, Have: p.peers}) }},
		doLeft:   {"note that the peer leaves", func(p *Pair, _ *cue) { p.peerLeaves = true }},
		doStayed: {"note that it stays", func(p *Pair, _ *cue) { p.leaves = false }},
		doLose: {"Lose, if messages are kept", func(p *Pair, _ *cue) {
			if p.kept {
				p.emit(Effect{Kind: Lose})
			}
		}},
	}
}
