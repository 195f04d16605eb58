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
//  8. The token is zero in None, Barred and Wanted, and in Offered until the offer has been made. In all other states
//     it is not zero.
//  9. Both directions use datagrams until the stream is open.
//  10. If there is neither a stream nor an attempt to open one, the state of the stream is Barred if the maximum number
//     of attempts has failed, and None otherwise.
//  11. This rank has both sent and received LEAVE only in Left or after the stream has failed.
//
// A number in a comment below refers to the invariant of that number.
type upgrade struct {
	pair *Peer
	at   [regions]upgradeState // current state of each region; 7, 9

	token    Token  // identifies the stream or the attempt to open one; zero if neither exists; 8
	offer    []byte // offer that this rank has made for this token; nil if it has made none
	failures int    // failed attempts since a stream opened, the connection closed or the network changed; 10
	why      error  // reason of the last failed attempt; see Why
	asked    asking // whether WANT or OFFER was sent
	bulk     bool   // a message was longer than Room, so datagrams do not suffice
	worth    worth  // amount of data that was sent recently

	kept        bool   // the owner retains each message written to the stream until the peer has received it
	leaves      bool   // this rank has sent LEAVE, and the peer has not answered STAY; 11
	peerLeaves  bool   // this rank has received LEAVE; 11
	resumed     bool   // this rank has received RESUME
	have, peers uint64 // number of messages that this rank, and the peer by its RESUME, received from the stream
}

// asking says whether this rank has sent WANT or OFFER for the current attempt to open a stream.
type asking uint8

const (
	unasked   asking = iota // neither was sent or queued
	askStaged               // the message is queued and will be sent when the next connection opens
	askSent                 // the message was sent in the current connection
)

// attempts is the number of failed attempts after which the pair does not try to open a stream any more, until the
// connection closes or the network changes. The first attempt may fail because one of the two ranks was stopped for a
// while. The second attempt starts with an exchange of control messages, which proves that both ranks run again.
const attempts = 2

// LongMessage is the maximum length in bytes of a message that is sent as datagrams while a stream can be opened. A
// longer message is sent as datagrams only if all attempts to open a stream have failed.
const LongMessage = 16 << 10

// ErrBroken is the value of Effect.Why in Close and End if the peer has reported that the stream failed.
var ErrBroken = errors.New("the stream failed on its side")

func newUpgrade(pair *Peer) upgrade {
	return upgrade{pair: pair, at: [regions]upgradeState{noStream, outDatagrams, inDatagrams}}
}

// claimed reports whether the pair has a stream, even a failed one, or is opening one. The connection must not close
// meanwhile. Therefore this rank refuses each FIN of the peer, even one that was sent before the offer.
func (u *upgrade) claimed() bool { return u.at[stream] != noStream && u.at[stream] != barred }

// HasStream reports whether the pair has a stream that has not failed, as far as this rank knows.
func (u *upgrade) HasStream() bool {
	return u.at[stream] == open || u.at[stream] == leaving || u.at[stream] == left
}

// Draining reports whether the pair is returning from the stream to datagrams.
func (u *upgrade) Draining() bool { return u.at[stream] == leaving || u.at[stream] == left }

// Resuming reports whether the stream has failed and its messages are retained. Those that the peer has not received
// will be sent again as datagrams.
func (u *upgrade) Resuming() bool { return u.at[stream] == stopping || u.at[stream] == resuming }

// Sending reports whether this rank sends its messages on the stream. Before it returns to datagrams, it writes an end
// mark to the stream. Sending still returns true until the peer has confirmed that it has read the mark.
func (u *upgrade) Sending() bool { return u.at[outgoing] != outDatagrams }

// Reading reports whether the peer sends its messages on the stream.
func (u *upgrade) Reading() bool { return u.at[incoming] == inStream }

// Offering reports whether this rank has made an offer, or is making one, and has not accepted a stream for it yet.
func (u *upgrade) Offering() bool { return u.at[stream] == offered }

// Awaits reports whether token belongs to the stream that is being opened.
func (u *upgrade) Awaits(token Token) bool {
	return (u.at[stream] == offered || u.at[stream] == dialing) && u.has(token)
}

// has reports whether token belongs to the current stream or to the current attempt to open one.
func (u *upgrade) has(token Token) bool { return token != Token{} && token == u.token }

// Why returns the error of the last failed attempt to open a stream. It returns nil if no attempt has failed since the
// connection was opened or the pair moved to the other network.
func (u *upgrade) Why() error { return u.why }

// Due reports whether the next message of this rank has to use the open stream because a message was longer than Room.
func (u *upgrade) Due() bool {
	return u.at[stream] == open && u.at[outgoing] == outDatagrams && u.bulk
}

// Verdict says how to send a message.
type Verdict uint8

// The verdicts of Route.
const (
	ByDatagram Verdict = iota
	ByStream
	NotNow        // call Route again after the effect Notify or Writable
	AfterUpgraded // pass the event Upgrade to the Peer, and call Route again
)

// Route returns how to send the next message, which has size bytes. It may count the message toward Config.Worth. If it
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
	// If the message may be sent as datagrams, it needs a stream in two cases: a message was longer than Room, or
	// this rank has recently sent enough data.
	needs := must || !u.Draining() && u.pair.isOpen() && (u.worth.reached(u.pair.cfg.Worth, size, now) || u.bulk)
	switch {
	case !needs:
		return ByDatagram
	case u.at[stream] == noStream || u.at[stream] == open:
		return AfterUpgraded
	case must:
		return NotNow // a stream is being opened, or the current one must be closed before another one is opened
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

// ask sends WANT if this rank dials, and OFFER otherwise. If the connection is not open, the message is queued for the
// next one.
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

// forget resets the upgrade after the end of an attempt or of a stream. It keeps the count and the reason of failures.
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
