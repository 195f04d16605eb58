package upgrade

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

// machine is a Pair and what came of its events, in words.
type machine struct {
	Pair
	t *testing.T
}

// given makes a Pair, of a rank that dials or offers, whose connection is open.
func given(t *testing.T, dials bool) *machine {
	m := &machine{New(Config{Dials: dials}), t}
	m.gets(Event{Kind: Opened})
	return m
}

// gets gives the Pair an event and compares the effects.
func (m *machine) gets(ev Event, want ...string) *machine {
	m.t.Helper()
	require.Equal(m.t, want, inWords(m.Step(ev)))
	return m
}

// receives gives it a control.
func (m *machine) receives(kind Control, token Token, want ...string) *machine {
	m.t.Helper()
	return m.gets(Event{Kind: Received, Msg: message(kind, token, map[Control]string{Offer: "port"}[kind])}, want...)
}

// routes asks how a message goes.
func (m *machine) routes(msg Message, verdict Verdict, want ...string) *machine {
	m.t.Helper()
	is, effects := m.Route(msg)
	require.Equal(m.t, verdict, is)
	require.Equal(m.t, want, inWords(effects))
	return m
}

var effectNames = [...]string{"", "send", "MakeOffer", "Dial", "Read", "Mark", "Close", "End", "Notify", "Idle", "Stop",
	"Lose", "Again"}

func inWords(effects []Effect) (words []string) {
	for _, e := range effects {
		word := effectNames[e.Kind]
		if e.Kind == Send {
			word = e.Control.String()
		}
		if e.Alarm {
			word += " alarm"
		}
		words = append(words, word)
	}
	return words
}

var (
	long  = Message{Size: LongMessage + 1}
	short = Message{Size: 100}
	full  = Message{Size: 100, Full: true}
)

func made(token Token) Event { return Event{Kind: OfferMade, Token: token, Offer: []byte("port")} }

// withStream makes a Pair that has the stream of token one.
func withStream(t *testing.T, dials bool) *machine {
	if dials {
		return given(t, true).routes(long, Wait, "WANT").receives(Offer, one, "Dial").
			gets(Event{Kind: Connected, Token: one}, "TAKEN", "Notify")
	}
	return accepted(t).receives(Taken, one, "Notify")
}

// accepted makes a Pair that has proved itself to a dialler and has not heard of it since.
func accepted(t *testing.T) *machine {
	return given(t, false).receives(Want, Token{}, "MakeOffer").gets(made(one), "OFFER").
		gets(Event{Kind: Connected, Token: one})
}

// What was said to an earlier epoch, and arrives late, is not about the stream that
// this one has: messages of it would overtake datagrams.
func TestControlsAreOfOneStream(t *testing.T) {
	for _, kind := range []Control{Switch, Leave, Stay, Returned, Broke, Taken} {
		m := accepted(t)
		m.receives(kind, two).receives(kind, Token{})
		require.Equal(t, Accepted, m.State(), "%v", kind)
		m = withStream(t, false)
		before := m.at
		m.receives(kind, two).receives(kind, Token{})
		require.Equal(t, before, m.at, "%v", kind)
	}
	m := given(t, false)
	m.receives(Switch, Token{})
	require.Equal(t, InDatagrams, m.at[incoming])
	withStream(t, false).receives(Switch, one, "Read")
}

// A pair whose window was full moves to the stream that it has asked for, also when
// the window has room again by then.
func TestFullWindowMoves(t *testing.T) {
	m := given(t, true).routes(short, ByDatagram).routes(full, ByDatagram, "WANT").routes(short, ByDatagram)
	m.receives(Offer, one, "Dial").gets(Event{Kind: Connected, Token: one}, "TAKEN", "Notify")
	require.True(t, m.Due())
	m.routes(short, ByStream, "SWITCH").routes(short, ByStream)
}

// A GIVEUP of an older attempt does not take the stream from one side alone.
func TestGiveUpNamesItsAttempt(t *testing.T) {
	for _, dials := range []bool{false, true} {
		m := withStream(t, dials).receives(GiveUp, two)
		require.True(t, m.HasStream())
	}
	accepted(t).receives(GiveUp, two).receives(GiveUp, one, "Notify", "Close")
}

// A dialler that stood still may give up when the other rank has proved itself already. That rank
// has sent nothing by the stream, so nothing is lost, and the next attempt is made.
func TestGiveUpAfterProof(t *testing.T) {
	m := accepted(t).routes(long, Wait).routes(full, ByDatagram).receives(GiveUp, one, "Notify", "Close")
	m.routes(long, Wait, "MakeOffer").gets(made(two), "OFFER").gets(Event{Kind: Connected, Token: two})
	m.routes(long, Wait).receives(Taken, one).routes(long, Wait).receives(Taken, two, "Notify")
	m.routes(long, ByStream, "SWITCH")
}

// A reason that a fabric gives goes along as far as it fits.
func TestReasonIsBounded(t *testing.T) {
	m := given(t, true).routes(long, Wait, "WANT").receives(Offer, one, "Dial")
	effects := m.Step(Event{Kind: DialFailed, Token: one, Why: errors.New(strings.Repeat("x", 2000))})
	require.Len(t, effects[0].Msg, 1+TokenLen+longestReason)
}

// A rank that cannot make an offer says so, with the cause, to one that has asked.
func TestNoOffer(t *testing.T) {
	o := given(t, false).receives(Want, Token{}, "MakeOffer")
	effects := o.Step(Event{Kind: OfferFailed, Why: errDial})
	m := given(t, true).routes(long, Wait, "WANT").gets(Event{Kind: Received, Msg: effects[0].Msg}, "Notify")
	require.Equal(t, None, m.State())
	require.ErrorIs(t, o.Why(), errDial)
	require.EqualError(t, m.Why(), "the other side could not: the port is filtered")
	m.routes(long, Wait, "WANT")
}

// A peer that was asked in a connection that has closed may be another epoch: it is asked
// again, in the next one, with the same token, which does not disturb one that has
// not changed. Otherwise nobody might open the next one.
func TestAskedAgain(t *testing.T) {
	m := given(t, true).routes(long, Wait, "WANT").gets(Event{Kind: Closed}, "WANT").gets(Event{Kind: Opened})
	m.receives(Offer, one, "Dial").receives(Offer, one)
	o := given(t, false).routes(long, Wait, "MakeOffer").gets(made(one), "OFFER")
	o.gets(Event{Kind: Closed}, "OFFER").gets(Event{Kind: Opened}).receives(Want, Token{})
}

// What is asked while no connection is open goes with the next one, once.
func TestAskedAheadOfTheConnection(t *testing.T) {
	m := &machine{New(Config{Dials: true}), t}
	m.routes(long, Wait, "WANT").gets(Event{Kind: Closed}).gets(Event{Kind: Opened}).gets(Event{Kind: Closed}, "WANT")
}

// A pair that rests between an offer and its stream keeps the offer.
func TestOfferAcrossARest(t *testing.T) {
	o := given(t, false).routes(long, Wait, "MakeOffer").gets(made(one), "OFFER")
	o.gets(Event{Kind: Closed}, "OFFER").gets(Event{Kind: Opened}).gets(Event{Kind: Connected, Token: one})
	o.receives(Taken, one, "Notify")
	require.True(t, o.HasStream())
}

// A connection on which a stream was asked for is not closed by a FIN of before.
func TestConnectionIsKept(t *testing.T) {
	m := given(t, true)
	require.False(t, m.Kept())
	m.routes(long, Wait, "WANT")
	require.True(t, m.Kept())
	o := given(t, false).receives(Want, Token{}, "MakeOffer")
	require.True(t, o.Kept())
	require.True(t, accepted(t).Kept())
	require.True(t, withStream(t, true).Kept())
}

// A stream that fails is told to the peer, which may only receive, and to those here
// that wait for messages of any rank.
func TestFailedStreamIsReportedToAll(t *testing.T) {
	withStream(t, true).gets(Event{Kind: Lost, Token: one, Why: errFailed}, "BROKEN", "End alarm")
	effects := withStream(t, false).Step(Event{Kind: Received, Msg: message(Broke, one, "")})
	require.Equal(t, []string{"Close", "End alarm"}, inWords(effects))
	require.Equal(t, ErrBroken, effects[1].Why)
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
	m := withStream(t, true).receives(Switch, one, "Read").gets(Event{Kind: EndRead, Token: two})
	require.True(t, m.Reading())
}

// A dial that ends when its attempt is over changes nothing.
func TestLateDial(t *testing.T) {
	m := given(t, true).routes(long, Wait, "WANT").receives(Offer, one, "Dial").gets(Event{Kind: Failed})
	require.False(t, m.Awaits(one))
	late := func() {
		m.gets(Event{Kind: Connected, Token: one}).gets(Event{Kind: DialFailed, Token: one, Why: errDial})
	}
	late()
	require.Equal(t, None, m.State())
	m.gets(Event{Kind: Opened}).routes(long, Wait, "WANT").receives(Offer, two, "Dial")
	late()
	require.True(t, m.Awaits(two))
}

// The side that has proved itself does not give the stream up before the other has it.
func TestRestBeforeTheStream(t *testing.T) {
	accepted(t).gets(Event{Kind: Rest}).receives(Taken, one, "Notify").gets(Event{Kind: Rest}, "LEAVE")
}

// A stream is not given up while somebody sends.
func TestBusySideStays(t *testing.T) {
	m := withStream(t, true).gets(Event{Kind: Rest, Busy: true})
	m.gets(Event{Kind: Received, Msg: message(Leave, one, ""), Busy: true}, "STAY")
	require.Equal(t, Open, m.State())
}

// An end mark that was written before STAY is not written again, and the direction
// waits for RETURNED before it moves once more.
func TestMarkBeforeStay(t *testing.T) {
	m := withStream(t, true).routes(long, ByStream, "SWITCH").gets(Event{Kind: Rest}, "LEAVE", "Mark")
	m.receives(Stay, one, "Notify").routes(short, Wait).gets(Event{Kind: Rest}, "LEAVE").receives(Stay, one, "Notify")
	m.receives(Returned, one, "Notify").routes(long, ByStream, "SWITCH")
}

// Both directions come back before the stream is closed.
func TestBothGiveTheStreamUp(t *testing.T) {
	m := withStream(t, true).routes(long, ByStream, "SWITCH").receives(Switch, one, "Read")
	m.gets(Event{Kind: Rest}, "LEAVE", "Mark").routes(short, Wait).receives(Leave, one)
	m.gets(Event{Kind: EndRead, Token: one}, "RETURNED").receives(Returned, one, "Notify", "Close", "Notify", "Idle")
	require.Equal(t, None, m.State())
}

// FuzzReceived: whatever a peer says, the Pair keeps its regions apart and goes on.
func FuzzReceived(f *testing.F) {
	for kind := range controls {
		f.Add(message(kind, one, ""), true)
	}
	f.Fuzz(func(t *testing.T, m []byte, dials bool) {
		for _, p := range []*machine{given(t, dials), withStream(t, dials)} {
			p.Step(Event{Kind: Received, Msg: m})
			p.Step(Event{Kind: Received, Msg: m, Busy: true})
			for of := range regions {
				require.Equal(t, of, p.at[of].region())
			}
		}
	})
}
