package peer

import (
	"errors"
	"time"
)

// upgrade decides how a pair moves from datagrams to a stream and back. The connection of the pair carries its control
// messages, once and in the order of the messages of the pair. docs/dev/upgrade.md is generated from the table that is
// executed here. An upgrade keeps these invariants:
//
//  7. Each region is in a state of its own.
//  8. There is a token exactly if an attempt has one or there is a stream. An offer that is being made has none yet.
//  9. Neither rank moves its direction before both have the stream.
//  10. An upgrade is barred exactly if all attempts have failed.
//  11. Both ranks have sent LEAVE only while the stream is being given up or has failed.
type upgrade struct {
	pair *Peer
	at   [regions]upgradeState // 7, 9

	token    Token  // 8: of the stream that there is, or is to be; zero: none
	offer    []byte // of this rank, which goes with the token
	failures int    // 10: attempts that have failed since the connection was opened
	why      error  // the last failure
	asked    asking
	bulk     bool // the window was full: datagrams do not suffice
	worth    worth

	kept        bool   // what is written to the stream is kept until it has arrived
	leaves      bool   // 11: LEAVE was sent, and not answered with STAY
	peerLeaves  bool   // 11: LEAVE was received
	resumed     bool   // RESUME was received
	have, peers uint64 // messages that have come by the stream: to us, and to the peer as it says
}

// asking is where WANT or OFFER of this attempt was sent.
type asking uint8

const (
	unasked   asking = iota
	askStaged        // for the next connection
	askSent          // in this connection
)

// attempts is how many are made for a stream in one connection. The first may fail
// because one side stood still; the second does not begin before that side has
// answered the first one's end.
const attempts = 2

// LongMessage is the length in bytes above which a message needs a stream.
const LongMessage = 16 << 10

// ErrBroken is why a pair has ended whose stream failed at the peer.
var ErrBroken = errors.New("the stream failed on its side")

func newUpgrade(pair *Peer) upgrade {
	return upgrade{pair: pair, at: [regions]upgradeState{noStream, outDatagrams, inDatagrams}}
}

// claimed reports whether a stream is there or on its way: the connection must not
// close, also not by a FIN that is older than the offer.
func (u *upgrade) claimed() bool { return u.at[stream] != noStream && u.at[stream] != barred }

// HasStream reports whether the stream is there, and works as far as is known.
func (u *upgrade) HasStream() bool {
	return u.at[stream] == open || u.at[stream] == leaving || u.at[stream] == left
}

// Draining reports whether the stream is being given up.
func (u *upgrade) Draining() bool { return u.at[stream] == leaving || u.at[stream] == left }

// Resuming reports whether the stream has failed and what was on it will go another way.
func (u *upgrade) Resuming() bool { return u.at[stream] == stopping || u.at[stream] == resuming }

// Sending reports whether our messages go by stream.
func (u *upgrade) Sending() bool { return u.at[outgoing] != outDatagrams }

// Reading reports whether the peer's messages come by stream.
func (u *upgrade) Reading() bool { return u.at[incoming] == inStream }

// Offering reports whether an offer was made that the peer has not taken yet.
func (u *upgrade) Offering() bool { return u.at[stream] == offered }

// Awaits reports whether the stream of a token is on its way here.
func (u *upgrade) Awaits(token Token) bool {
	return (u.at[stream] == offered || u.at[stream] == dialing) && u.has(token)
}

// has reports whether the stream of a token is the present one, whatever state it is in.
func (u *upgrade) has(token Token) bool { return token != Token{} && token == u.token }

// Why returns the error of the last attempt to open a stream, or nil if none has failed since the connection was opened.
func (u *upgrade) Why() error { return u.why }

// Due reports whether the next message has to move to the stream that there is.
func (u *upgrade) Due() bool {
	return u.at[stream] == open && u.at[outgoing] == outDatagrams && u.bulk
}

// Verdict is how a message goes.
type Verdict uint8

// The verdicts of Route.
const (
	ByDatagram Verdict = iota
	ByStream
	NotNow        // ask again after Notify, or when the window has room
	AfterUpgraded // pass the event Upgrade to the Peer, and ask again
)

// Route returns how the next message of so many bytes goes, and counts it toward Config.Worth. A message for which it
// returns ByStream has to be written to the stream before Route is called for the next one.
func (u *upgrade) Route(size int, now time.Duration) Verdict {
	if u.Resuming() {
		return NotNow // behind what is sent again
	}
	switch u.at[outgoing] {
	case outMarked:
		return NotNow // what follows the end mark waits for the peer to have read it
	case outStream:
		return ByStream
	}
	if u.at[stream] == barred {
		return ByDatagram
	}
	u.bulk = u.bulk || u.pair.isOpen() && u.pair.Room() < size
	must := size > LongMessage || u.pair.cfg.Always
	// If datagrams could carry the message, a stream is worth its cost in two cases: the window is too small for the
	// waiting data (bulk), or the pair has sent enough data recently.
	needs := must || !u.Draining() && u.pair.isOpen() && (u.worth.reached(u.pair.cfg.Worth, size, now) || u.bulk)
	switch {
	case !needs:
		return ByDatagram
	case u.at[stream] == noStream || u.at[stream] == open:
		return AfterUpgraded
	case must:
		return NotNow // for the stream that is on its way, or for the next one if this one is being given up
	}
	return ByDatagram
}

// follow does what follows from the states rather than from the event.
func (u *upgrade) follow() {
	if u.at[stream] == stopping && u.at[incoming] == inDatagrams {
		u.apply(stream, onStopped, &upgradeCue{})
	}
	if u.at[stream] == resuming && u.resumed {
		u.apply(stream, onResumed, &upgradeCue{})
	}
	back := u.at[outgoing] == outDatagrams && u.at[incoming] == inDatagrams
	if back && u.leaves && u.peerLeaves && u.at[stream] != broken {
		u.apply(stream, onBothBack, &upgradeCue{})
	}
	if u.at[stream] == noStream && u.failures >= attempts {
		u.apply(stream, onTried, &upgradeCue{})
	}
}

func (u *upgrade) send(kind controlKind, rest string) {
	u.pair.send(message{body: controlMessage(kind, u.token, rest), kind: flagControl})
}

// ask sends WANT or OFFER, in this connection or in the next.
func (u *upgrade) ask() {
	u.asked = askStaged
	if u.pair.isOpen() {
		u.asked = askSent
	}
	if u.pair.cfg.Dials {
		u.send(controlWant, "")
		return
	}
	u.send(controlOffer, string(u.offer))
}

// forget ends an attempt or a stream.
func (u *upgrade) forget() {
	u.apply(outgoing, onOver, &upgradeCue{})
	u.apply(incoming, onOver, &upgradeCue{})
	u.token, u.offer, u.asked, u.bulk, u.worth = Token{}, nil, unasked, false, worth{}
	u.kept, u.leaves, u.peerLeaves, u.resumed, u.have, u.peers = false, false, false, false, 0, 0
}

// failed ends an attempt to open a stream: it counts the failure and notifies the owner of the error why.
func (u *upgrade) failed(why error) {
	u.failures++
	u.why = why
	u.forget()
	u.pair.emit(Effect{Kind: Notify})
}
