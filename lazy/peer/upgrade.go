package peer

import (
	"errors"
	"time"
)

// upgrade decides how a pair moves from datagrams to a stream and back. The connection of the pair carries its control
// messages, each once and in order with the other messages of the pair. docs/dev/upgrade.md is generated from
// upgradeTable, which apply executes. An upgrade keeps these invariants:
//
//  7. The state of each region is one of its own states.
//  8. The token is set exactly in the states of the stream from Offered on. In Offered it is not set until the offer
//     has been made.
//  9. Both directions use datagrams until the stream is open.
//  10. If there is neither a stream nor an attempt, the stream is Barred exactly if all attempts have failed.
//  11. Both LEAVE messages, of this rank and of the peer, have been sent only in Left or after the stream has failed.
type upgrade struct {
	pair *Peer
	at   [regions]upgradeState // 7, 9

	token    Token  // 8: identifies the stream or the attempt to open one
	offer    []byte // offer of this rank that belongs to token
	failures int    // 10: failed attempts since the connection was opened, or since the last stream was
	why      error  // reason of the last failure
	asked    asking
	bulk     bool // a message has not fitted into the window: datagrams do not suffice
	worth    worth

	kept        bool   // messages written to the stream are retained until the peer has them
	leaves      bool   // 11: we have sent LEAVE, and the peer has not answered STAY
	peerLeaves  bool   // 11: we have received LEAVE
	resumed     bool   // we have received RESUME
	have, peers uint64 // messages received by the stream: by this rank, and by the peer as its RESUME says
}

// asking says in which connection WANT or OFFER of the current attempt was sent.
type asking uint8

const (
	unasked   asking = iota
	askStaged        // staged for the next connection
	askSent          // sent in the current connection
)

// attempts is the maximum number of failed attempts to open a stream in one connection. The first attempt may fail
// because one of the two ranks was stopped for a while. The second attempt does not begin before that rank has answered
// the end of the first one.
const attempts = 2

// LongMessage is the length in bytes up to which messages can be sent as datagrams. Longer messages need a stream.
const LongMessage = 16 << 10

// ErrBroken is the field Why of the effect End if the stream of the pair has failed at the peer.
var ErrBroken = errors.New("the stream failed on its side")

func newUpgrade(pair *Peer) upgrade {
	return upgrade{pair: pair, at: [regions]upgradeState{noStream, outDatagrams, inDatagrams}}
}

// claimed reports whether the pair has a stream, even a failed one, or is opening one. The connection must not close
// then, not even for a FIN that is older than the offer.
func (u *upgrade) claimed() bool { return u.at[stream] != noStream && u.at[stream] != barred }

// HasStream reports whether the pair has a stream, and no failure of it is known.
func (u *upgrade) HasStream() bool {
	return u.at[stream] == open || u.at[stream] == leaving || u.at[stream] == left
}

// Draining reports whether the stream is being given up.
func (u *upgrade) Draining() bool { return u.at[stream] == leaving || u.at[stream] == left }

// Resuming reports whether the stream has failed and the messages that the peer lacks will be sent again as datagrams.
func (u *upgrade) Resuming() bool { return u.at[stream] == stopping || u.at[stream] == resuming }

// Sending reports whether the messages of this rank use the stream. After the end mark, it returns true until the peer
// has read the mark.
func (u *upgrade) Sending() bool { return u.at[outgoing] != outDatagrams }

// Reading reports whether the messages of the peer use the stream.
func (u *upgrade) Reading() bool { return u.at[incoming] == inStream }

// Offering reports whether this rank has made an offer, or is making one, for which the peer has not dialed yet.
func (u *upgrade) Offering() bool { return u.at[stream] == offered }

// Awaits reports whether token belongs to the stream that is being opened.
func (u *upgrade) Awaits(token Token) bool {
	return (u.at[stream] == offered || u.at[stream] == dialing) && u.has(token)
}

// has reports whether token belongs to the current stream or attempt, in any state.
func (u *upgrade) has(token Token) bool { return token != Token{} && token == u.token }

// Why returns the error of the last failed attempt to open a stream. It returns nil if no attempt has failed since the
// connection was opened or the pair moved to the other network.
func (u *upgrade) Why() error { return u.why }

// Due reports whether the next message has to move to the open stream because the window was full.
func (u *upgrade) Due() bool {
	return u.at[stream] == open && u.at[outgoing] == outDatagrams && u.bulk
}

// Verdict says how to send a message.
type Verdict uint8

// The verdicts of Route.
const (
	ByDatagram Verdict = iota
	ByStream
	NotNow        // ask again after Notify, or when the window has room
	AfterUpgraded // pass the event Upgrade to the Peer, and ask again
)

// Route returns how to send the next message, and counts it toward Config.Worth. size is its length in bytes. If Route
// returns ByStream, the message must be written to the stream before Route is called for the next one.
func (u *upgrade) Route(size int, now time.Duration) Verdict {
	if u.Resuming() {
		return NotNow // the message must follow those that are sent again
	}
	switch u.at[outgoing] {
	case outMarked:
		return NotNow // the message must wait until the peer has read the end mark
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
		return NotNow // the stream is being opened, or is being given up and another one must follow
	}
	return ByDatagram
}

// follow applies the inputs that result from the current states rather than from an event.
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

// ask sends WANT or OFFER. If the connection is not open, the message is staged for the next one.
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

// forget resets the upgrade after the end of an attempt or of a stream. It keeps the count of failures.
func (u *upgrade) forget() {
	u.apply(outgoing, onOver, &upgradeCue{})
	u.apply(incoming, onOver, &upgradeCue{})
	u.token, u.offer, u.asked, u.bulk, u.worth = Token{}, nil, unasked, false, worth{}
	u.kept, u.leaves, u.peerLeaves, u.resumed, u.have, u.peers = false, false, false, false, 0, 0
}

// failed ends an attempt to open a stream. It counts the failure, stores its reason for Why, and emits Notify.
func (u *upgrade) failed(why error) {
	u.failures++
	u.why = why
	u.forget()
	u.pair.emit(Effect{Kind: Notify})
}
