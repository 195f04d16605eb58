// Package upgrade decides how one pair of ranks moves from datagrams to a stream
// and back, as one of them sees it. A Pair is a value: events go in, effects come
// out. It opens, reads and closes nothing, has no lock and no clock, and does not
// know how datagrams travel: its controls have to arrive once and in the order of
// the pair's messages, as package peer sees to.
//
// docs/dev/upgrade.md is generated from the table that is executed here.
package upgrade

import (
	"errors"
	"time"
)

// Config is what a Pair knows at birth.
type Config struct {
	Dials  bool // this rank is the lower one: it dials, the peer offers
	Always bool // each message goes by stream
	Worth  Worth
}

// Pair is the upgrade of one pair of ranks. The owner calls its methods one at a
// time. It is made by New.
type Pair struct {
	cfg Config
	at  [regions]State

	token    Token  // of the stream that there is, or is to be; zero: none
	offer    []byte // of this rank, which goes with the token
	failures int    // attempts that have failed since the connection was opened
	why      error  // the last failure
	up       bool   // the connection is open
	asked    asking
	bulk     bool // the window was full: datagrams do not suffice
	worth    worth

	kept        bool   // what is written to the stream is kept until it has arrived
	leaves      bool   // LEAVE was sent, and not answered with STAY
	peerLeaves  bool   // LEAVE was received
	resumed     bool   // RESUME was received
	have, peers uint64 // messages that have come by the stream: to us, and to the peer as it says

	effects []Effect
	trace   func(*row) // each row that was used; for tests
}

// asking is where WANT or OFFER of this attempt was sent.
type asking uint8

const (
	unasked asking = iota
	staged         // for the next connection
	sent           // in this connection
)

// attempts is how many are made for a stream in one connection. The first may fail
// because one side stood still; the second does not begin before that side has
// answered the first one's end.
const attempts = 2

// LongMessage is the length in bytes above which a message needs a stream.
const LongMessage = 16 << 10

// ErrBroken is why a pair has ended whose stream failed at the peer.
var ErrBroken = errors.New("the stream failed on its side")

// New makes the Pair of two ranks that have no stream.
func New(cfg Config) Pair {
	return Pair{cfg: cfg, at: [regions]State{None, OutDatagrams, InDatagrams}}
}

// State is the state of the stream.
func (p *Pair) State() State { return p.at[stream] }

// Kept reports whether a stream is there or on its way: the connection must not
// close, also not by a FIN that is older than the offer.
func (p *Pair) Kept() bool { return p.at[stream] != None && p.at[stream] != Barred }

// HasStream reports whether the stream is there, and works as far as is known.
func (p *Pair) HasStream() bool {
	return p.at[stream] == Open || p.at[stream] == Leaving || p.at[stream] == Left
}

// Draining reports whether the stream is being given up.
func (p *Pair) Draining() bool { return p.at[stream] == Leaving || p.at[stream] == Left }

// Resuming reports whether the stream has failed and what was on it will go another way.
func (p *Pair) Resuming() bool { return p.at[stream] == Stopping || p.at[stream] == Resuming }

// Has reports whether the stream of a token is the present one, whatever state it is in.
func (p *Pair) Has(token Token) bool { return token != Token{} && token == p.token }

// Sending reports whether our messages go by stream.
func (p *Pair) Sending() bool { return p.at[outgoing] != OutDatagrams }

// Reading reports whether the peer's messages come by stream.
func (p *Pair) Reading() bool { return p.at[incoming] == InStream }

// Offering reports whether an offer was made that the peer has not taken yet.
func (p *Pair) Offering() bool { return p.at[stream] == Offered }

// Awaits reports whether the stream of a token is on its way here.
func (p *Pair) Awaits(token Token) bool {
	return (p.at[stream] == Offered || p.at[stream] == Dialing) && p.Has(token)
}

// Why is what the last attempt failed with; nil if none has since the connection was opened.
func (p *Pair) Why() error { return p.why }

// Due reports whether the next message has to move to the stream that there is.
func (p *Pair) Due() bool { return p.at[stream] == Open && p.at[outgoing] == OutDatagrams && p.bulk }

// Message is what Route knows of a message.
type Message struct {
	Size int  // bytes
	Full bool // the window has no room for it
	Now  time.Duration
}

// Route says how the next message goes. A message for which it says ByStream has to
// be written to the stream before the next one is asked about.
func (p *Pair) Route(m Message) (Verdict, []Effect) {
	if p.Resuming() {
		return Wait, nil // behind what is sent again
	}
	switch p.at[outgoing] {
	case OutMarked:
		return Wait, nil // what follows the end mark waits for the peer to have read it
	case OutStream:
		return ByStream, nil
	}
	if p.at[stream] == Barred {
		return ByDatagram, nil
	}
	p.bulk = p.bulk || m.Full && p.up
	must := m.Size > LongMessage || p.cfg.Always
	if p.Draining() {
		if must {
			return Wait, nil // the next stream comes when this one is gone
		}
		return ByDatagram, nil
	}
	// If datagrams could carry the message, a stream is worth its cost in two cases: the window is too small for the
	// waiting data (bulk), or the pair has sent enough data recently.
	if !must && !(p.up && (p.worth.reached(p.cfg.Worth, m.Size, m.Now) || p.bulk)) {
		return ByDatagram, nil
	}
	p.effects = nil
	if p.at[stream] == Open {
		p.apply(outgoing, inMove, &cue{})
		return ByStream, p.effects
	}
	in := inNeed
	if !p.cfg.Dials {
		in = inNeedOffer
	}
	p.apply(stream, in, &cue{})
	if must {
		return Wait, p.effects
	}
	return ByDatagram, p.effects
}

// Step takes one event and returns what is to be done, in this order. The slice is
// the caller's.
func (p *Pair) Step(ev Event) []Effect {
	p.effects = nil
	p.look(ev)
	p.follow()
	return p.effects
}

// follow does what follows from the states rather than from the event.
func (p *Pair) follow() {
	if p.at[stream] == Resuming && p.resumed {
		p.apply(stream, inResumed, &cue{})
	}
	back := p.at[outgoing] == OutDatagrams && p.at[incoming] == InDatagrams
	if back && p.leaves && p.peerLeaves && p.at[stream] != Broken {
		p.apply(stream, inBothBack, &cue{})
	}
	if p.at[stream] == None && p.failures >= attempts {
		p.apply(stream, inTried, &cue{})
	}
}

func (p *Pair) emit(e Effect) { p.effects = append(p.effects, e) }

func (p *Pair) send(kind Control, rest string) {
	p.emit(Effect{Kind: Send, Control: kind, Msg: message(kind, p.token, rest)})
}

// ask sends WANT or OFFER, in this connection or in the next.
func (p *Pair) ask() {
	p.asked = staged
	if p.up {
		p.asked = sent
	}
	if p.cfg.Dials {
		p.send(Want, "")
		return
	}
	p.send(Offer, string(p.offer))
}

// forget ends an attempt or a stream.
func (p *Pair) forget() {
	p.apply(outgoing, inOver, &cue{})
	p.apply(incoming, inOver, &cue{})
	p.token, p.offer, p.asked, p.bulk, p.worth = Token{}, nil, unasked, false, worth{}
	p.kept, p.leaves, p.peerLeaves, p.resumed, p.have, p.peers = false, false, false, false, 0, 0
}

// failed ends an attempt to open a stream: it counts the failure and notifies the owner of the error why.
func (p *Pair) failed(why error) {
	p.failures++
	p.why = why
	p.forget()
	p.emit(Effect{Kind: Notify})
}
