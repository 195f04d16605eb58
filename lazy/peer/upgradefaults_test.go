package peer

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each test in this file reproduces a former fault of package lazy with as few events as possible. The code that
// handled these events has moved to this package.

var (
	one, two  = Token{7: 1}, Token{7: 2}
	errDial   = errors.New("the port is filtered")
	errFailed = errors.New("queue pair 17 failed")
)

// machine wraps a Peer for tests. Its methods pass events to the upgrade and compare the resulting effects and control
// messages with the expected ones, given by name.
type machine struct {
	*Peer
	t *testing.T
}

// given returns a machine whose connection is open. dials is Config.Dials.
func given(t *testing.T, dials bool) *machine {
	m := &machine{New(Config{Dials: dials}), t}
	m.known, m.mtu = true, m.cfg.MTU
	return m.hears(Opened)
}

// does calls do and checks that it causes the effects and control messages in want. It checks the order of the effects
// and the order of the control messages separately. The names of control messages are in capitals.
func (m *machine) does(do func(), want ...string) *machine {
	m.t.Helper()
	m.scratch.effects = nil
	staged := m.queue.len()
	do()
	var controls, wantedEffects, wantedControls []string
	for _, c := range m.queue.list[staged:] {
		controls = append(controls, controlKind(c.body[0]).String())
	}
	for _, w := range want {
		if w == strings.ToUpper(w) {
			wantedControls = append(wantedControls, w)
		} else {
			wantedEffects = append(wantedEffects, w)
		}
	}
	require.Equal(m.t, wantedEffects, inWords(m.scratch.effects))
	require.Equal(m.t, wantedControls, controls)
	require.Equal(m.t, m.at[stream] > wanted && (m.at[stream] != offered || m.offer != nil), m.token != Token{})
	return m
}

// staged returns the control message that was staged last.
func (m *machine) staged() []byte { return m.queue.list[len(m.queue.list)-1].body }

// gets passes an event to the Peer and checks the resulting effects and control messages.
func (m *machine) gets(ev Event, want ...string) *machine {
	m.t.Helper()
	return m.does(func() { m.handle(ev) }, want...)
}

// hears reports a change of the connection to the upgrade: it is now open if kind is Opened, and closed otherwise.
func (m *machine) hears(kind EffectKind, want ...string) *machine {
	m.t.Helper()
	m.state, m.win = Idle, nil
	if kind == Opened {
		m.state, m.win = Up, newWindow(ring)
	}
	return m.does(func() { m.hear(news{kind: kind}, false) }, want...)
}

// takes passes an encoded control message to the upgrade. busy is set if a sender is at work.
func (m *machine) takes(control []byte, busy bool, want ...string) *machine {
	m.t.Helper()
	return m.does(func() { m.hear(news{control: control}, busy) }, want...)
}

// receives passes a control message of the given kind to the upgrade.
func (m *machine) receives(kind controlKind, token Token, want ...string) *machine {
	m.t.Helper()
	return m.takes(controlMessage(kind, token, map[controlKind]string{controlOffer: "port"}[kind]), false, want...)
}

// outgoingMessage is a message of size bytes. If full is set, the window has no room for it.
type outgoingMessage struct {
	size int
	full bool
}

// routes calls Route for a message and checks the verdict, the effects and the control messages. If Route returns
// AfterUpgraded, routes passes the event Upgrade and calls Route again.
func (m *machine) routes(msg outgoingMessage, verdict Verdict, want ...string) *machine {
	m.t.Helper()
	if msg.full {
		m.unackedBytes += m.cfg.Stage
	}
	is := m.Route(msg.size, 0)
	m.does(func() {
		if is == AfterUpgraded {
			m.handle(Event{Kind: Upgrade})
			is = m.Route(msg.size, 0)
		}
	}, want...)
	if msg.full {
		m.unackedBytes -= m.cfg.Stage
	}
	require.Equal(m.t, verdict, is)
	return m
}

// effectNames contains the names of the effects that an upgrade emits.
var effectNames = map[EffectKind]string{MakeOffer: "MakeOffer", Dial: "Dial", Read: "Read", Mark: "Mark", Close: "Close",
	End: "End", Notify: "Notify", MayRest: "MayRest", Stop: "Stop", Lose: "Lose", Again: "Again"}

func inWords(effects []Effect) (words []string) {
	for _, e := range effects {
		word := effectNames[e.Kind]
		if e.Alarm {
			word += " alarm"
		}
		words = append(words, word)
	}
	return words
}

var (
	long  = outgoingMessage{size: LongMessage + 1}
	short = outgoingMessage{size: 100}
	full  = outgoingMessage{size: 100, full: true}
)

func made(token Token) Event { return Event{Kind: OfferMade, Token: token, Msg: []byte("port")} }

// withStream returns a machine with an open stream, whose token is one.
func withStream(t *testing.T, dials bool) *machine {
	if dials {
		return given(t, true).routes(long, NotNow, "WANT").receives(controlOffer, one, "Dial").
			gets(Event{Kind: Connected, Token: one}, "TAKEN", "Notify")
	}
	return acceptedOnce(t).receives(controlTaken, one, "Notify")
}

// acceptedOnce returns a machine that has accepted a stream and has received nothing from the dialer since.
func acceptedOnce(t *testing.T) *machine {
	return given(t, false).receives(controlWant, Token{}, "MakeOffer").gets(made(one), "OFFER").
		gets(Event{Kind: Connected, Token: one})
}

// A control message that was sent to an earlier epoch and arrives late does not change the stream of the current epoch.
// Otherwise messages on that stream would overtake datagrams.
func TestControlsAreOfOneStream(t *testing.T) {
	for _, kind := range []controlKind{controlSwitch, controlLeave, controlStay, controlReturned, controlBroke, controlTaken} {
		m := acceptedOnce(t)
		m.receives(kind, two).receives(kind, Token{})
		require.Equal(t, accepted, m.at[stream], "%v", kind)
		m = withStream(t, false)
		before := m.at
		m.receives(kind, two).receives(kind, Token{})
		require.Equal(t, before, m.at, "%v", kind)
	}
	m := given(t, false)
	m.receives(controlSwitch, Token{})
	require.Equal(t, inDatagrams, m.at[incoming])
	withStream(t, false).receives(controlSwitch, one, "Read")
}

// A pair that has asked for a stream because its window was full moves to the stream, even if the window has room again
// by then.
func TestFullWindowMoves(t *testing.T) {
	m := given(t, true).routes(short, ByDatagram).routes(full, ByDatagram, "WANT").routes(short, ByDatagram)
	m.receives(controlOffer, one, "Dial").gets(Event{Kind: Connected, Token: one}, "TAKEN", "Notify")
	require.True(t, m.Due())
	m.routes(short, ByStream, "SWITCH").routes(short, ByStream)
}

// A GIVEUP of an older attempt is ignored. Otherwise it would end the current stream at one of the ranks only.
func TestGiveUpNamesItsAttempt(t *testing.T) {
	for _, dials := range []bool{false, true} {
		m := withStream(t, dials).receives(controlGiveUp, two)
		require.True(t, m.HasStream())
	}
	acceptedOnce(t).receives(controlGiveUp, two).receives(controlGiveUp, one, "Notify", "Close")
}

// A dialer that was stopped for a while may give up after the other rank has accepted the stream. That rank has not
// sent anything on the stream, so nothing is lost, and the next attempt is made.
func TestGiveUpAfterProof(t *testing.T) {
	m := acceptedOnce(t).routes(long, NotNow).routes(full, ByDatagram).receives(controlGiveUp, one, "Notify", "Close")
	m.routes(long, NotNow, "MakeOffer").gets(made(two), "OFFER").gets(Event{Kind: Connected, Token: two})
	m.routes(long, NotNow).receives(controlTaken, one).routes(long, NotNow).receives(controlTaken, two, "Notify")
	m.routes(long, ByStream, "SWITCH")
}

// The reason in a GIVEUP is cut off at longestReason bytes.
func TestReasonIsBounded(t *testing.T) {
	m := given(t, true).routes(long, NotNow, "WANT").receives(controlOffer, one, "Dial")
	m.gets(Event{Kind: DialFailed, Token: one, Why: errors.New(strings.Repeat("x", 2000))}, "GIVEUP", "Notify")
	require.Len(t, m.staged(), 1+TokenLen+longestReason)
}

// A rank that cannot make an offer sends GIVEUP with the reason to the rank that has asked for it.
func TestNoOffer(t *testing.T) {
	o := given(t, false).receives(controlWant, Token{}, "MakeOffer")
	o.gets(Event{Kind: OfferFailed, Why: errDial}, "GIVEUP", "Notify")
	m := given(t, true).routes(long, NotNow, "WANT").takes(o.staged(), false, "Notify")
	require.Equal(t, noStream, m.at[stream])
	require.ErrorIs(t, o.Why(), errDial)
	require.EqualError(t, m.Why(), "the other side could not: the port is filtered")
	m.routes(long, NotNow, "WANT")
}

// A rank sends WANT or OFFER again if the connection closes before the peer has answered, because the process of the
// peer may have been replaced. The token stays the same, so that a peer that was not replaced ignores the second OFFER.
func TestAskedAgain(t *testing.T) {
	m := given(t, true).routes(long, NotNow, "WANT").hears(Closed, "WANT").hears(Opened)
	m.receives(controlOffer, one, "Dial").receives(controlOffer, one)
	o := given(t, false).routes(long, NotNow, "MakeOffer").gets(made(one), "OFFER")
	o.hears(Closed, "OFFER").hears(Opened).receives(controlWant, Token{})
}

// A request that is made while no connection is open is sent in the next connection, once.
func TestAskedAheadOfTheConnection(t *testing.T) {
	m := given(t, true).hears(Closed)
	m.routes(long, NotNow, "WANT").hears(Closed).hears(Opened).hears(Closed, "WANT")
}

// An offer stays valid if the connection closes before the stream is opened.
func TestOfferAcrossARest(t *testing.T) {
	o := given(t, false).routes(long, NotNow, "MakeOffer").gets(made(one), "OFFER")
	o.hears(Closed, "OFFER").hears(Opened).gets(Event{Kind: Connected, Token: one})
	o.receives(controlTaken, one, "Notify")
	require.True(t, o.HasStream())
}

// A connection does not close while the pair has a stream, or is opening one.
func TestConnectionIsKept(t *testing.T) {
	m := given(t, true)
	require.False(t, m.claimed())
	m.routes(long, NotNow, "WANT")
	require.True(t, m.claimed())
	o := given(t, false).receives(controlWant, Token{}, "MakeOffer")
	require.True(t, o.claimed())
	require.True(t, acceptedOnce(t).claimed())
	require.True(t, withStream(t, true).claimed())
}

// A rank whose stream fails sends BROKEN, because a peer that only receives might not detect the failure. Both ranks
// emit End with Alarm set. If the stream failed because the peer has exited, Alarm is not set.
func TestFailedStreamIsReportedToAll(t *testing.T) {
	withStream(t, true).gets(Event{Kind: Lost, Token: one, Why: errFailed}, "BROKEN", "End alarm")
	m := withStream(t, false).receives(controlBroke, one, "Close", "End alarm")
	require.Equal(t, ErrBroken, m.scratch.effects[1].Why)
	withStream(t, true).gets(Event{Kind: Lost, Token: one, Why: errFailed, PeerEnded: true}, "End")
}

// The failure of an older stream, or of a pair that has ended already, causes the effect End. It does not change the
// state of the upgrade. Neither does the end mark of an older stream.
func TestOlderStreamFails(t *testing.T) {
	for _, ev := range []Event{{Token: two}, {Token: one, Over: true}, {}} {
		ev.Kind, ev.Why = Lost, errFailed
		m := withStream(t, true).gets(ev, "End")
		require.True(t, m.HasStream())
	}
	m := withStream(t, true).receives(controlSwitch, one, "Read").gets(Event{Kind: EndRead, Token: two})
	require.True(t, m.Reading())
}

// The result of a dial is ignored if its attempt has already ended.
func TestLateDial(t *testing.T) {
	m := given(t, true).routes(long, NotNow, "WANT").receives(controlOffer, one, "Dial").hears(Failed)
	require.False(t, m.Awaits(one))
	late := func() {
		m.gets(Event{Kind: Connected, Token: one}).gets(Event{Kind: DialFailed, Token: one, Why: errDial})
	}
	late()
	require.Equal(t, noStream, m.at[stream])
	m.hears(Opened).routes(long, NotNow, "WANT").receives(controlOffer, two, "Dial")
	late()
	require.True(t, m.Awaits(two))
}

// A rank that has accepted a stream does not send LEAVE before it has received TAKEN.
func TestRestBeforeTheStream(t *testing.T) {
	acceptedOnce(t).gets(Event{Kind: Rest}).receives(controlTaken, one, "Notify").gets(Event{Kind: Rest}, "LEAVE")
}

// The pair does not return from a stream to datagrams while a sender is at work.
func TestBusySideStays(t *testing.T) {
	m := withStream(t, true).gets(Event{Kind: Rest, Busy: true})
	m.takes(controlMessage(controlLeave, one, ""), true, "STAY")
	require.Equal(t, open, m.at[stream])
}

// A rank that receives STAY after it has written its end mark does not write the mark again. It waits for RETURNED
// before it sends messages on the stream again.
func TestMarkBeforeStay(t *testing.T) {
	m := withStream(t, true).routes(long, ByStream, "SWITCH").gets(Event{Kind: Rest}, "LEAVE", "Mark")
	m.receives(controlStay, one, "Notify").routes(short, NotNow).gets(Event{Kind: Rest}, "LEAVE").receives(controlStay, one, "Notify")
	m.receives(controlReturned, one, "Notify").routes(long, ByStream, "SWITCH")
}

// The stream is closed only after both ranks have returned to datagrams.
func TestBothGiveTheStreamUp(t *testing.T) {
	m := withStream(t, true).routes(long, ByStream, "SWITCH").receives(controlSwitch, one, "Read")
	m.gets(Event{Kind: Rest}, "LEAVE", "Mark").routes(short, NotNow).receives(controlLeave, one)
	m.gets(Event{Kind: EndRead, Token: one}, "RETURNED").receives(controlReturned, one, "Notify", "Close", "Notify", "MayRest")
	require.Equal(t, noStream, m.at[stream])
}

// FuzzReceived checks that no control message of the peer breaks an invariant of the upgrade.
func FuzzReceived(f *testing.F) {
	for kind := range controls {
		f.Add(controlMessage(kind, one, ""), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, dials bool) {
		for _, m := range []*machine{given(t, dials), withStream(t, dials)} {
			for _, busy := range []bool{false, true} {
				m.hear(news{control: b}, busy)
				m.Peer.follow()
				require.NoError(t, m.Check())
			}
		}
	})
}
