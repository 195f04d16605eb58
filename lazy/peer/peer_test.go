package peer

import (
	"encoding/binary"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
)

// fair is a world without faults: 200 us there and back.
func fair(ranks int) chances {
	return chances{ranks: ranks, delay: 100 * time.Microsecond, answer: 50 * time.Microsecond}
}

// connect lets one rank open the connection to another and waits for it.
func (w *world) connect(from, to int) {
	w.At(w.Now, func() { w.ranks[from].ends[to].step(Event{Kind: Warm}) })
	if err := w.run(); err != nil {
		w.Broken("%v", err)
	}
}

func (w *world) pair() (a, b *end) { return w.ranks[0].ends[1], w.ranks[1].ends[0] }

func only(t *testing.T, effects []Effect, kind EffectKind) Effect {
	t.Helper()
	i := slices.IndexFunc(effects, func(e Effect) bool { return e.Kind == kind })
	require.GreaterOrEqual(t, i, 0, "no effect %d in %+v", kind, effects)
	return effects[i]
}

func TestOneSided(t *testing.T) {
	w := newWorld(1, fair(2))
	a, b := w.pair()
	w.At(0, func() { a.step(Event{Kind: Warm}) })
	require.NoError(t, w.run())
	require.Equal(t, 3, w.posts[PacketState], "STATE, STATE HY ACK, STATE HY")
	require.Equal(t, Up, a.peer.State())
	require.Equal(t, Up, b.peer.State())
	require.Equal(t, 1, a.opened)
	require.Equal(t, 1, b.opened)
	require.Equal(t, b.self.tuple, a.peer.Address())
}

func TestFirstMessage(t *testing.T) {
	w := newWorld(1, fair(2))
	a, _ := w.pair()
	w.At(0, func() { a.send(100, false) })
	require.NoError(t, w.run())
	require.Len(t, w.took, 1)
	require.LessOrEqual(t, w.took[0], 50*time.Microsecond+3*w.delay, "one question, one round trip, and there")
	require.Zero(t, a.peer.Unacked())
}

func TestCrossing(t *testing.T) {
	w := newWorld(1, chances{ranks: 2, delay: 100 * time.Microsecond})
	a, b := w.pair()
	w.At(0, func() { a.step(Event{Kind: Warm}); b.step(Event{Kind: Warm}) })
	require.NoError(t, w.run())
	require.Equal(t, Up, a.peer.State())
	require.Equal(t, Up, b.peer.State())
	require.Equal(t, 4, w.posts[PacketState], "each asks and each answers: nobody wins and nobody starts again")
	require.Equal(t, uint32(1), a.peer.gen)
	require.Equal(t, uint32(1), b.peer.gen)
}

func TestClose(t *testing.T) {
	w := newWorld(1, fair(2))
	a, b := w.pair()
	w.connect(0, 1)
	w.At(w.Now, func() { a.step(Event{Kind: Rest}); a.send(50, false) })
	require.NoError(t, w.run())
	require.Equal(t, 1, a.closed)
	require.Equal(t, 1, b.closed)
	require.Equal(t, 2, a.opened, "what was sent meanwhile opens it anew")
	require.Len(t, w.took, 1)
	require.Equal(t, uint32(2), a.peer.gen)
	require.Empty(t, a.causes)

	w.At(w.Now, func() { a.step(Event{Kind: Rest}); b.step(Event{Kind: Rest}) })
	require.NoError(t, w.run())
	require.Equal(t, Idle, a.peer.State(), "crossing")
	require.Equal(t, Idle, b.peer.State(), "crossing")
	require.Nil(t, a.peer.win)
	require.Nil(t, b.peer.win)
	require.Equal(t, never, a.peer.armed)
}

// TestFinSticks: an attempt that was refused is refused for ever, one that was
// granted is granted for ever.
func TestFinSticks(t *testing.T) {
	w := newWorld(1, fair(2))
	a, _ := w.pair()
	w.connect(0, 1)
	fin := func(attempt uint32, count uint64) PacketKind {
		k := packet{kind: PacketFin, attempt: attempt, count: count}
		return only(t, a.peer.Step(w.Now, Event{
			Kind: Packet, Packet: PacketFin, Gen: 1, SrcEpoch: 1, DstEpoch: 1, Body: k.append(nil),
			Tuple: a.other.tuple,
		}), Transmit).Packet
	}
	require.Equal(t, PacketFinNak, fin(1, 9), "nine messages are not here")
	require.Equal(t, Up, a.peer.State())
	require.Equal(t, PacketFinNak, fin(1, 0), "the same attempt, though it could be granted now")
	require.Equal(t, PacketFinAck, fin(2, 0))
	require.Equal(t, Idle, a.peer.State())
	require.Equal(t, PacketFinNak, fin(1, 0), "a late duplicate")
	require.Equal(t, PacketFinAck, fin(2, 0), "our FINACK was lost")
}

// A FIN that comes late is refused where the owner has made something on the connection, and the
// other side learns of it.
func TestKept(t *testing.T) {
	w := newWorld(1, fair(2))
	w.connect(0, 1)
	a, b := w.pair()
	b.keep = true
	a.step(Event{Kind: Rest})
	require.NoError(t, w.run())
	require.Equal(t, Up, a.peer.State())
	require.Equal(t, Up, b.peer.State())
	require.Zero(t, a.closed+b.closed)
	b.keep = false
	a.step(Event{Kind: Rest})
	require.NoError(t, w.run())
	require.Equal(t, Idle, a.peer.State())
	require.Equal(t, 1, b.closed)
}

func TestRoom(t *testing.T) {
	p := New(Config{Epoch: 1, MTU: 1000, Stage: 1000})
	require.Equal(t, 1000-messageCost, p.Room())
	require.Equal(t, Resolve, p.Step(0, Event{Kind: Send, Msg: make([]byte, 500)})[0].Kind)
	long := make([]byte, p.Room()+1)
	require.Equal(t, 1, p.Unacked())
	p.send(message{body: long, kind: flagControl})
	require.Empty(t, p.Step(0, Event{Kind: Taken}), "control always fits")
	require.Negative(t, p.Room())
	require.Equal(t, 2, p.Unacked())
	lost := p.Step(1, Event{Kind: Unresolved, Cause: Exited})
	require.Equal(t, Effect{Kind: Failed, Cause: Exited, Lost: 2}, lost[0])
	require.Equal(t, Writable, lost[1].Kind)
	require.Equal(t, Idle, p.State())
	require.Equal(t, Resolve, p.Step(2, Event{Kind: Send})[0].Kind, "a later message starts anew")
}

// TestPeerThatHasEnded: a peer that is silent is asked for after three resends, and given up when
// the agent has said for 30 s that it runs.
func TestPeerThatHasEnded(t *testing.T) {
	effects, now, asked, sent := silence(t, true, time.Hour)
	require.Equal(t, Effect{Kind: Failed, Cause: TimedOut, Lost: 1}, effects[0])
	require.Equal(t, giveUp, now)
	require.InDelta(t, float64(askNotBefore), float64(asked[0]), float64(5*time.Millisecond))
	require.InDelta(t, 30, len(asked), 1, "then once a second")
	require.InDelta(t, 30_000/250, sent, 15)
}

// TestStopped: a peer for which nobody answers stands still, and is waited for.
func TestStopped(t *testing.T) {
	effects, _, asked, sent := silence(t, false, 10*time.Minute)
	require.False(t, slices.ContainsFunc(effects, func(e Effect) bool { return e.Kind == Failed }))
	require.InDelta(t, 600, len(asked), 1)
	require.InDelta(t, 600_000/250, sent, 200)
}

// silence is a peer that never answers, until it is given up or so long. The agent says each time
// that it runs, or nothing.
func silence(t *testing.T, runs bool, most time.Duration) (
	effects []Effect, now time.Duration, asked []time.Duration, sent int) {
	p := New(Config{Epoch: 1, MTU: 1000})
	p.Step(0, Event{Kind: Send, Msg: []byte("x")})
	effects = p.Step(0, Event{Kind: Resolved, Epoch: 4, Tuple: fabric.Tuple{Num: 1}})
	require.Equal(t, uint16(4), only(t, effects, Transmit).DstEpoch)
	first := slices.Clone(effects[0].Body)
	for now < most && p.State() != Idle {
		set := slices.IndexFunc(effects, func(e Effect) bool { return e.Kind == SetTimer })
		require.GreaterOrEqual(t, set, 0)
		now = effects[set].At
		effects = slices.Clone(p.Step(now, Event{Kind: Tick}))
		for _, e := range effects {
			switch e.Kind {
			case Transmit:
				require.Equal(t, stamp(now), binary.BigEndian.Uint16(e.Body[4:]))
				require.Equal(t, first, slices.Concat(e.Body[:4], first[4:6], e.Body[6:]),
					"the same bytes but for the stamp")
				sent++
			case Resolve:
				require.True(t, e.Fresh)
				require.Equal(t, uint16(4), e.Least)
				asked = append(asked, now)
				if runs {
					effects = append(effects, p.Step(now, Event{Kind: Resolved, Epoch: 4, Tuple: fabric.Tuple{Num: 1},
						Fresh: true})...)
				}
			}
		}
	}
	return effects, now, asked, sent
}

// TestLeftGeneration: a rank whose attempts were all in vain is above its
// peer; the peer learns that from REJECT and not by 30 s of silence.
func TestLeftGeneration(t *testing.T) {
	w := newWorld(1, fair(2))
	a, b := w.pair()
	w.connect(0, 1)
	for range 3 {
		a.peer.apply(inMissing, &cue{cause: Broken})
		a.peer.enter(a.peer.gen + 1)
	}
	a.peer.hear(news{kind: Failed}, false)
	w.At(w.Now, func() { b.send(30, false) })
	require.NoError(t, w.run())
	require.Equal(t, []Cause{WasReset}, b.causes, "it was Up and had sent")
	w.At(w.Now, func() { b.send(30, false) })
	require.NoError(t, w.run())
	require.Equal(t, uint32(5), b.peer.gen)
	require.Zero(t, b.peer.Unacked())
	require.Less(t, w.Now, 50*time.Millisecond)
}

// Who has an address beside the first says that one to peers on Ethernet, and to
// no others.
func TestSecondary(t *testing.T) {
	first, secondary := fabric.Tuple{Kind: fabric.IB, LID: 7, Num: 8},
		fabric.Ethernet(netip.MustParseAddrPort("10.0.0.1:9"))
	for to, says := range map[fabric.Tuple]fabric.Tuple{
		{Kind: fabric.IB, LID: 1, Num: 2}:                          first,
		fabric.Ethernet(netip.MustParseAddrPort("10.0.0.2:10")):    secondary,
		fabric.Ethernet(netip.MustParseAddrPort("[fd00::2]:10")):   secondary,
		{Kind: fabric.ROCE4, Addr: [16]byte{10, 0, 0, 2}, Num: 11}: first,
	} {
		old := packet{kind: PacketFin, attempt: 1}
		p := New(Config{Epoch: 2, Tuple: first, Secondary: secondary, MTU: 1000})
		p.Step(0, Event{Kind: Warm})
		told := 0
		for at, ev := range []Event{
			{Kind: Resolved, Tuple: to, Epoch: 1},
			// to an epoch before: REJECT
			{Kind: Packet, Packet: PacketFin, Gen: 9, SrcEpoch: 1, DstEpoch: 1, Tuple: to, Body: old.append(nil)},
		} {
			for _, e := range p.Step(time.Duration(at), ev) {
				if e.Kind != Transmit {
					continue
				}
				var k packet
				require.True(t, k.parse(e.Packet, e.Body))
				require.Equal(t, to, e.To)
				require.Equal(t, says, k.tuple, e.Packet)
				told++
			}
		}
		require.Equal(t, 2, told)
	}
}

// TestRestarted: what was sent to a dead epoch is reported, what comes
// after goes to the living one, and nobody has to ask the agent.
func TestRestarted(t *testing.T) {
	w := newWorld(1, fair(2))
	a, _ := w.pair()
	w.connect(0, 1)
	r := w.ranks[1]
	for r.epoch == 1 || r.tuple != r.tuples[0] { // a seed's coin decides about the address
		w.stop(r, false)
		w.start(r, false)
	}
	w.answer = time.Hour // would be noticed
	start := w.Now
	w.At(start, func() { a.send(30, false) })
	w.At(start+time.Millisecond, func() { a.send(30, false) })
	require.NoError(t, w.run())
	require.Equal(t, []Cause{Restarted}, a.causes)
	require.True(t, a.flow.sent[0].lost)
	require.True(t, a.flow.sent[1].delivered)
	require.Less(t, w.took[0], 2*time.Millisecond)
	require.Equal(t, r.epoch, a.peer.epoch)
}

// TestSmall checks that ten thousand idle Peers, each with its upgrade, take only a few megabytes.
func TestSmall(t *testing.T) {
	require.LessOrEqual(t, int(reflect.TypeFor[Peer]().Size()-reflect.TypeFor[upgrade]().Size()), 512)
	require.LessOrEqual(t, int(reflect.TypeFor[Peer]().Size()), 608)
	require.LessOrEqual(t, int(reflect.TypeFor[window]().Size()), 8<<10)
	t.Log(reflect.TypeFor[Peer]().Size(), reflect.TypeFor[window]().Size(), reflect.TypeFor[Effect]().Size(),
		reflect.TypeFor[Event]().Size())
}
