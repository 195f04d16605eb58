package peer

import (
	"encoding/binary"
	"fmt"
)

// upgradeCue holds the values of an event or a control message that the actions of a table row use.
type upgradeCue struct {
	token Token
	offer []byte // data from Fabric.Offer that the dialer needs
	why   error  // reason of a failure
	have  uint64 // number of messages received from the stream: by the peer in RESUME, otherwise by this rank
}

// look handles an event of the owner. It translates the event to an input of upgradeTable. It ignores an event about
// an earlier stream, unless the event is Lost and the messages of that stream were not retained.
func (u *upgrade) look(ev Event) {
	c := upgradeCue{ev.Token, ev.Msg, ev.Why, ev.Have}
	about := u.has(ev.Token)
	switch ev.Kind {
	case Upgrade:
		u.needed()
	case OfferMade:
		u.apply(stream, onOfferMade, &c)
	case OfferFailed:
		u.apply(stream, onOfferFailed, &c)
	case Connected:
		if u.Awaits(ev.Token) {
			on := onConnected
			if !u.pair.cfg.Dials {
				on = onAccepted
			}
			u.kept = ev.Kept
			u.apply(stream, on, &c)
		}
	case DialFailed:
		if u.Awaits(ev.Token) {
			u.apply(stream, onDialFailed, &c)
		}
	case EndRead:
		if about {
			u.have = ev.Have
			u.apply(incoming, onEndMark, &c)
		}
	case Lost:
		switch {
		case !about && ev.Kept: // the messages of that stream have been sent again or reported as lost
		case !about || ev.Over:
			u.pair.emit(Effect{Kind: End, Why: ev.Why})
		case ev.PeerEnded:
			u.apply(stream, onPeerEnded, &c)
		case u.kept:
			u.apply(stream, onCut, &c)
		default:
			u.apply(stream, onLost, &c)
		}
	case Stopped:
		if about {
			u.have = ev.Have
			u.apply(stream, onStopped, &c)
		}
	}
	u.follow()
}

// needed starts an attempt to open a stream. If a stream is open, needed moves the messages of this rank to it. If an
// attempt is in progress, needed does nothing.
func (u *upgrade) needed() {
	switch {
	case u.at[stream] == open && u.at[outgoing] == outDatagrams:
		u.apply(outgoing, onMove, &upgradeCue{})
	case u.at[stream] != noStream:
	case u.pair.cfg.Dials:
		u.apply(stream, onNeed, &upgradeCue{})
	default:
		u.apply(stream, onNeedOffer, &upgradeCue{})
	}
}

// rest starts the return from the stream to datagrams. It does nothing if busy reports that a sender is at work.
func (u *upgrade) rest(busy bool) {
	if !busy {
		u.apply(stream, onRest, &upgradeCue{})
	}
	u.follow()
}

// hear handles a change of the state of the connection, or a control message that was received. busy reports whether a
// sender of this rank is at work and may be about to write to the stream.
func (u *upgrade) hear(n news, busy bool) {
	switch n.kind {
	case Opened:
		if u.asked == askStaged {
			u.asked = askSent
		}
	case Closed:
		u.apply(stream, onRested, &upgradeCue{})
		if u.asked == askSent {
			u.apply(stream, onUnanswered, &upgradeCue{})
		}
	case Failed:
		u.apply(stream, onReset, &upgradeCue{})
	case Moved:
		u.apply(stream, onMoved, &upgradeCue{})
	default:
		u.received(n.control, busy)
	}
	u.follow()
}

// received handles the encoded control message b of the peer. It ignores a malformed message and a message about
// another stream or attempt.
func (u *upgrade) received(b []byte, busy bool) {
	m, ok := parseControl(b)
	if !ok {
		return
	}
	c := upgradeCue{token: m.token}
	switch m.kind {
	case controlWant:
		if !u.pair.cfg.Dials {
			u.apply(stream, onWant, &c)
		}
		return
	case controlOffer:
		if u.pair.cfg.Dials && m.token != u.token && m.token != (Token{}) {
			c.offer = append([]byte(nil), m.rest...)
			u.apply(stream, onOffer, &c)
		}
		return
	case controlGiveUp:
		if m.token == u.token {
			c.why = fmt.Errorf("the other side could not: %s", m.rest)
			u.apply(stream, onGiveUp, &c)
		}
		return
	}
	if !u.has(m.token) {
		return
	}
	switch m.kind {
	case controlTaken:
		u.apply(stream, onTaken, &c)
	case controlSwitch:
		switch {
		case u.HasStream():
			u.apply(incoming, onSwitch, &c)
		case u.Resuming():
			u.apply(incoming, onMissed, &c)
		}
	case controlLeave:
		on := onLeave
		if busy && u.HasStream() {
			on = onLeaveBusy
		}
		u.apply(stream, on, &c)
	case controlStay:
		u.apply(stream, onStay, &c)
	case controlReturned:
		u.apply(outgoing, onReturned, &c)
	case controlResume:
		c.have = binary.BigEndian.Uint64(m.rest)
		if u.HasStream() && !u.kept {
			c.why = ErrBroken
			u.apply(stream, onLost, &c)
			return
		}
		u.apply(stream, onResume, &c)
	case controlBroke:
		c.why = ErrBroken
		u.apply(stream, onBroken, &c)
	}
}

// apply finds the row for an input in the current state of a region, changes the state, and performs the actions of the
// row. The state changes first, because an action may read it or apply a row of another region.
func (u *upgrade) apply(of region, on upgradeInput, c *upgradeCue) {
	r := upgradeIndex[u.at[of]][on]
	if u.pair.trace != nil {
		u.pair.trace(r)
	}
	u.become(of, r.next)
	for _, a := range r.actions {
		switch a := a.(type) {
		case controlKind:
			u.send(a, "")
		case EffectKind:
			u.pair.emit(Effect{Kind: a})
		case *upgradeStep:
			a.do(u, c)
		}
	}
}

func (u *upgrade) become(of region, s upgradeState) { u.at[of] = s }

// The actions of upgradeTable that do more than send a control message or emit an effect without fields.
var (
	stepAsk  = &upgradeStep{"send WANT or OFFER", func(u *upgrade, _ *upgradeCue) { u.ask() }}
	stepKeep = &upgradeStep{"keep offer and token", func(u *upgrade, c *upgradeCue) { u.token, u.offer = c.token, c.offer }}
	stepDial = &upgradeStep{"keep the token, Dial", func(u *upgrade, c *upgradeCue) {
		u.token = c.token
		u.pair.emit(Effect{Kind: Dial, Token: c.token, Msg: c.offer})
	}}
	stepStream = &upgradeStep{"failures 0, Notify", func(u *upgrade, _ *upgradeCue) {
		u.failures = 0
		u.pair.emit(Effect{Kind: Notify})
	}}
	stepGiveUp = &upgradeStep{"failures + 1, send GIVEUP, forget the attempt, Notify", func(u *upgrade, c *upgradeCue) {
		text := c.why.Error()
		u.send(controlGiveUp, text[:min(len(text), longestReason)])
		u.failed(c.why)
	}}
	stepFail  = &upgradeStep{"failures + 1, forget the attempt, Notify", func(u *upgrade, c *upgradeCue) { u.failed(c.why) }}
	stepBreak = &upgradeStep{"Close with the peer's fault", func(u *upgrade, c *upgradeCue) {
		u.pair.emit(Effect{Kind: Close, Why: c.why})
	}}
	stepForget = &upgradeStep{"forget token and directions", func(u *upgrade, _ *upgradeCue) { u.forget() }}
	stepPardon = &upgradeStep{"failures 0", func(u *upgrade, _ *upgradeCue) { u.failures, u.why = 0, nil }}
	stepLeave  = &upgradeStep{"send LEAVE, our direction marks", func(u *upgrade, c *upgradeCue) {
		u.send(controlLeave, "")
		u.leaves = true
		u.apply(outgoing, onMark, c)
	}}
	stepEnd   = &upgradeStep{"End", func(u *upgrade, c *upgradeCue) { u.pair.emit(Effect{Kind: End, Why: c.why}) }}
	stepAlarm = &upgradeStep{"End with an alarm", func(u *upgrade, c *upgradeCue) {
		u.pair.emit(Effect{Kind: End, Why: c.why, Alarm: true})
	}}
	stepPeers  = &upgradeStep{"keep what the peer has", func(u *upgrade, c *upgradeCue) { u.resumed, u.peers = true, c.have }}
	stepResume = &upgradeStep{"send RESUME", func(u *upgrade, _ *upgradeCue) {
		u.send(controlResume, string(binary.BigEndian.AppendUint64(nil, u.have)))
	}}
	stepAgain  = &upgradeStep{"Again", func(u *upgrade, _ *upgradeCue) { u.pair.emit(Effect{Kind: Again, Have: u.peers}) }}
	stepLeft   = &upgradeStep{"note that the peer leaves", func(u *upgrade, _ *upgradeCue) { u.peerLeaves = true }}
	stepStayed = &upgradeStep{"note that it stays", func(u *upgrade, _ *upgradeCue) { u.leaves = false }}
	stepLose   = &upgradeStep{"Lose, if messages are kept", func(u *upgrade, _ *upgradeCue) {
		if u.kept {
			u.pair.emit(Effect{Kind: Lose})
		}
	}}
)
