package peer

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The faults that package lazy had in what this package decides now, each as the
// shortest scenario that shows it.

var (
	one, two  = Token{7: 1}, Token{7: 2}
	errDial   = errors.New("the port is filtered")
	errFailed = errors.New("queue pair 17 failed")
)

// machine is a Peer, of which the upgrade alone gets events, and what came of them, in words.
type machine struct {
	*Peer
	t *testing.T
}

// given makes a machine, of a rank that dials or offers, whose connection is open.
func given(t *testing.T, dials bool) *machine {
	m := &machine{New(Config{Dials: dials}), t}
	m.known, m.mtu = true, m.cfg.MTU
	return m.hears(Opened)
}

// does lets the upgrade do something, and compares the effects and, by itself, the control messages.
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

// gets gives it an event and compares what comes of it.
func (m *machine) gets(ev Event, want ...string) *machine {
	m.t.Helper()
	return m.does(func() { m.handle(ev) }, want...)
}

// hears tells it what has happened to the connection.
func (m *machine) hears(kind EffectKind, want ...string) *machine {
	m.t.Helper()
	m.state, m.win = Idle, nil
	if kind == Opened {
		m.state, m.win = Up, newWindow(ring)
	}
	return m.does(func() { m.hear(news{kind: kind}, false) }, want...)
}

// takes gives it a control message.
func (m *machine) takes(control []byte, busy bool, want ...string) *machine {
	m.t.Helper()
	return m.does(func() { m.hear(news{control: control}, busy) }, want...)
}

// receives gives it a control.
func (m *machine) receives(kind controlKind, token Token, want ...string) *machine {
	m.t.Helper()
	return m.takes(controlMessage(kind, token, map[controlKind]string{controlOffer: "port"}[kind]), false, want...)
}

// outgoingMessage is a message of some size, which the window may have no room for.
type outgoingMessage struct {
	size int
	full bool
}

// routes asks how a message goes.
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

// effectNames has the names of the effects of an upgrade.
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

// withStream makes a Pair that has the stream of token one.
func withStream(t *testing.T, dials bool) *machine {
	if dials {
		return given(t, true).routes(long, NotNow, "WANT").receives(controlOffer, one, "Dial").
			gets(Event{Kind: Connected, Token: one}, "TAKEN", "Notify")
	}
	return acceptedOnce(t).receives(controlTaken, one, "Notify")
}

// acceptedOnce makes a Pair that has proved itself to a dialler and has not heard of it since.
func acceptedOnce(t *testing.T) *machine {
	return given(t, false).receives(controlWant, Token{}, "MakeOffer").gets(made(one), "OFFER").
		gets(Event{Kind: Connected, Token: one})
}

// What was said to an earlier epoch, and arrives late, is not about the stream that
// this one has: messages of it would overtake datagrams.
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

// A pair whose window was full moves to the stream that it has asked for, also when
// the window has room again by then.
func TestFullWindowMoves(t *testing.T) {
	m := given(t, true).routes(short, ByDatagram).routes(full, ByDatagram, "WANT").routes(short, ByDatagram)
	m.receives(controlOffer, one, "Dial").gets(Event{Kind: Connected, Token: one}, "TAKEN", "Notify")
	require.True(t, m.Due())
	m.routes(short, ByStream, "SWITCH").routes(short, ByStream)
}

// A GIVEUP of an older attempt does not take the stream from one side alone.
func TestGiveUpNamesItsAttempt(t *testing.T) {
	for _, dials := range []bool{false, true} {
		m := withStream(t, dials).receives(controlGiveUp, two)
		require.True(t, m.HasStream())
	}
	acceptedOnce(t).receives(controlGiveUp, two).receives(controlGiveUp, one, "Notify", "Close")
}

// A dialler that stood still may give up when the other rank has proved itself already. That rank
// has sent nothing by the stream, so nothing is lost, and the next attempt is made.
func TestGiveUpAfterProof(t *testing.T) {
	m := acceptedOnce(t).routes(long, NotNow).routes(full, ByDatagram).receives(controlGiveUp, one, "Notify", "Close")
	m.routes(long, NotNow, "MakeOffer").gets(made(two), "OFFER").gets(Event{Kind: Connected, Token: two})
	m.routes(long, NotNow).receives(controlTaken, one).routes(long, NotNow).receives(controlTaken, two, "Notify")
	m.routes(long, ByStream, "SWITCH")
}

// A reason that a fabric gives goes along as far as it fits.
func TestReasonIsBounded(t *testing.T) {
	m := given(t, true).routes(long, NotNow, "WANT").receives(controlOffer, one, "Dial")
	m.gets(Event{Kind: DialFailed, Token: one, Why: errors.New(strings.Repeat("x", 2000))}, "GIVEUP", "Notify")
	require.Len(t, m.staged(), 1+TokenLen+longestReason)
}

// A rank that cannot make an offer says so, with the cause, to one that has asked.
func TestNoOffer(t *testing.T) {
	o := given(t, false).receives(controlWant, Token{}, "MakeOffer")
	o.gets(Event{Kind: OfferFailed, Why: errDial}, "GIVEUP", "Notify")
	m := given(t, true).routes(long, NotNow, "WANT").takes(o.staged(), false, "Notify")
	require.Equal(t, noStream, m.at[stream])
	require.ErrorIs(t, o.Why(), errDial)
	require.EqualError(t, m.Why(), "the other side could not: the port is filtered")
	m.routes(long, NotNow, "WANT")
}

// A peer that was asked in a connection that has closed may be another epoch: it is asked
// again, in the next one, with the same token, which does not disturb one that has
// not changed. Otherwise nobody might open the next one.
func TestAskedAgain(t *testing.T) {
	m := given(t, true).routes(long, NotNow, "WANT").hears(Closed, "WANT").hears(Opened)
	m.receives(controlOffer, one, "Dial").receives(controlOffer, one)
	o := given(t, false).routes(long, NotNow, "MakeOffer").gets(made(one), "OFFER")
	o.hears(Closed, "OFFER").hears(Opened).receives(controlWant, Token{})
}

// What is asked while no connection is open goes with the next one, once.
func TestAskedAheadOfTheConnection(t *testing.T) {
	m := given(t, true).hears(Closed)
	m.routes(long, NotNow, "WANT").hears(Closed).hears(Opened).hears(Closed, "WANT")
}

// A pair that rests between an offer and its stream keeps the offer.
func TestOfferAcrossARest(t *testing.T) {
	o := given(t, false).routes(long, NotNow, "MakeOffer").gets(made(one), "OFFER")
	o.hears(Closed, "OFFER").hears(Opened).gets(Event{Kind: Connected, Token: one})
	o.receives(controlTaken, one, "Notify")
	require.True(t, o.HasStream())
}

// A connection on which a stream was asked for is not closed by a FIN of before.
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

// A stream that fails is told to the peer, which may only receive, and to those here
// that wait for messages of any rank.
func TestFailedStreamIsReportedToAll(t *testing.T) {
	withStream(t, true).gets(Event{Kind: Lost, Token: one, Why: errFailed}, "BROKEN", "End alarm")
	m := withStream(t, false).receives(controlBroke, one, "Close", "End alarm")
	require.Equal(t, ErrBroken, m.scratch.effects[1].Why)
	withStream(t, true).gets(Event{Kind: Lost, Token: one, Why: errFailed, PeerEnded: true}, "End")
}

// The end of an older stream is not told about the present one, nor the end of a
// pair twice.
func TestOlderStreamFails(t *testing.T) {
	for _, ev := range []Event{{Token: two}, {Token: one, Over: true}, {}} {
		ev.Kind, ev.Why = Lost, errFailed
		m := withStream(t, true).gets(ev, "End")
		require.True(t, m.HasStream())
	}
	m := withStream(t, true).receives(controlSwitch, one, "Read").gets(Event{Kind: EndRead, Token: two})
	require.True(t, m.Reading())
}

// A dial that ends when its attempt is over changes nothing.
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

// The side that has proved itself does not give the stream up before the other has it.
func TestRestBeforeTheStream(t *testing.T) {
	acceptedOnce(t).gets(Event{Kind: Rest}).receives(controlTaken, one, "Notify").gets(Event{Kind: Rest}, "LEAVE")
}

// A stream is not given up while somebody sends.
func TestBusySideStays(t *testing.T) {
	m := withStream(t, true).gets(Event{Kind: Rest, Busy: true})
	m.takes(controlMessage(controlLeave, one, ""), true, "STAY")
	require.Equal(t, open, m.at[stream])
}

// An end mark that was written before STAY is not written again, and the direction
// waits for RETURNED before it moves once more.
func TestMarkBeforeStay(t *testing.T) {
	m := withStream(t, true).routes(long, ByStream, "SWITCH").gets(Event{Kind: Rest}, "LEAVE", "Mark")
	m.receives(controlStay, one, "Notify").routes(short, NotNow).gets(Event{Kind: Rest}, "LEAVE").receives(controlStay, one, "Notify")
	m.receives(controlReturned, one, "Notify").routes(long, ByStream, "SWITCH")
}

// Both directions come back before the stream is closed.
func TestBothGiveTheStreamUp(t *testing.T) {
	m := withStream(t, true).routes(long, ByStream, "SWITCH").receives(controlSwitch, one, "Read")
	m.gets(Event{Kind: Rest}, "LEAVE", "Mark").routes(short, NotNow).receives(controlLeave, one)
	m.gets(Event{Kind: EndRead, Token: one}, "RETURNED").receives(controlReturned, one, "Notify", "Close", "Notify", "MayRest")
	require.Equal(t, noStream, m.at[stream])
}

// FuzzReceived: whatever a peer says, the upgrade keeps its regions apart and goes on.
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
