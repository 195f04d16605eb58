package peer

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/test/fuzzed"
)

// FuzzPeer passes arbitrary packets and arbitrary events of the owner to a Peer. The Peer returns few effects for each
// event, sends only packets that parse, sets its timer to times in the future, retains no more bytes than it was given,
// and keeps its invariants.
func FuzzPeer(f *testing.F) {
	f.Add([]byte{1, 3, 4, 5, 1, 9, 0, 4, 6, 0, 0, 7, 9, 1, 2})
	for k := range byte(9) {
		f.Add([]byte{0, 200, 3, 6, k, 1, 0, 1, 4, 1, 2, 6, k + 1, 1, 1, 1, 8, 8, 6, 3, 0, 1, 1, 0, 0, 7, 6, 5, 1, 1, 1,
			2, 3, 4, 9})
	}
	for k := range byte(24) { // an open connection on which control messages arrive
		f.Add([]byte{1, 20, 2, 20, 3, 1, 20, 40, 3, 1, k, 1, 20, 41, k, 0, 1, 1, 20, 42, 3, 8, 1, k, 1, 20, 43, 1, k, 2})
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		b := &owner{Input: input}
		p := New(Config{Epoch: 2, Tuple: samples[0].tuple, MTU: 1400, Seed: 1, Dials: b.Byte()%2 == 0,
			Always: b.Byte()%8 == 0})
		now, given, received := time.Duration(0), 0, 0
		for len(b.Input) > 0 {
			ev, later := b.event(p, now)
			now += later
			if ev.Kind == Send {
				given += len(ev.Msg)
			}
			received += len(ev.Body)
			effects := p.Step(now, ev)
			require.NoError(t, p.Check())
			require.LessOrEqual(t, len(effects), 1000)
			b.offering = false
			for _, e := range effects {
				switch e.Kind {
				case Transmit:
					var k packet
					require.True(t, k.parse(e.Packet, e.Body), "%v is sent", e.Packet)
					require.LessOrEqual(t, len(e.Body), 1400)
				case SetTimer:
					require.GreaterOrEqual(t, e.At, now)
				case Deliver, DeliverBundle:
					received -= len(e.Msg)
					require.GreaterOrEqual(t, received, 0, "more is delivered than has come")
				case MakeOffer:
					b.offering = true
				case Dial:
					require.NotZero(t, e.Token)
				}
			}
			said := p.unackedBytes - given - messageCost*p.pending
			require.LessOrEqual(t, said, b.controls*(1+TokenLen+longestReason))
			require.GreaterOrEqual(t, p.pending, 0)
		}
	})
}

// owner derives the events of a Peer from the input of the fuzzer.
type owner struct {
	fuzzed.Input
	offering bool // the last step has asked for an offer
	controls int  // upper bound of the number of control messages that the upgrade has sent
}

// number returns a number near the given one, or far from it.
func (b *owner) number(near uint32) uint32 {
	switch n := b.Byte(); {
	case n < 64:
		return near + uint32(n) - 8
	case n < 128:
		return near + 1<<31 - uint32(n)
	default:
		return uint32(n) << (n % 32)
	}
}

func (b *owner) token(p *Peer) Token {
	return [...]Token{{}, one, two, p.token}[b.Byte()%4]
}

// streamEvent returns an event about the stream of the pair.
func (b *owner) streamEvent(p *Peer, now time.Duration) Event {
	b.controls += 2
	ev := Event{Token: b.token(p), Why: errFailed, Busy: b.Byte()%2 == 0, Have: uint64(b.Byte())}
	flags := b.Byte()
	ev.PeerEnded, ev.Over, ev.Kept = flags&1 > 0, flags&2 > 0, flags&4 > 0
	if b.offering {
		ev.Kind, ev.Token, ev.Msg = OfferMade, one, []byte("port")
		if flags&1 > 0 {
			ev.Kind = OfferFailed
		}
		return ev
	}
	ev.Kind = [...]EventKind{Upgrade, Connected, DialFailed, EndRead, Lost, Stopped, Rest}[b.Byte()%7]
	if ev.Kind == Upgrade && p.Route(int(b.Byte())<<8, now) != AfterUpgraded {
		ev.Kind = Rest
	}
	return ev
}

// control returns a control message, which may be cut off or have a wrong length.
func (b *owner) control(p *Peer) []byte {
	b.controls += 2
	m := controlMessage(controlKind(b.Byte()%byte(controls+1)), b.token(p), string(make([]byte, b.Byte()%12)))
	return m[:len(m)-min(len(m), int(b.Byte()%16/15))]
}

func (b *owner) event(p *Peer, now time.Duration) (ev Event, later time.Duration) {
	if b.offering {
		return b.streamEvent(p, now), 0
	}
	switch b.Byte() % 16 {
	case 0:
		return Event{Kind: Send, Msg: make([]byte, int(b.Byte())*int(b.Byte()))}, 0
	case 1:
		return b.streamEvent(p, now), 0
	case 2:
		return Event{Kind: Warm}, 0
	case 3:
		return Event{Kind: Resolved, Tuple: samples[0].tuple, Epoch: uint16(1 + b.Byte()%3)}, 0
	case 4:
		return Event{Kind: Unresolved, Cause: Cause(1 + b.Byte()%3)}, 0
	case 5:
		return Event{Kind: Tick}, time.Duration(b.Byte()) << (b.Byte() % 40)
	case 6:
		return Event{Kind: Flush}, 0
	case 7:
		return Event{Kind: Taken, N: int(b.Byte()) << 8}, 0
	case 8:
		b.controls += 2
		return Event{Kind: Floor, Epoch: uint16(b.Byte() % 3)}, 0
	case 9, 10, 11: // a control message of the peer or, if the connection is not open, a packet that opens it
		if p.win != nil || p.state == Half {
			k := packet{kind: PacketSegment, flags: flagFirst | flagLast | flagControl, payload: b.control(p)}
			if p.win != nil {
				k.seq, k.ack = p.win.want, p.win.next
			}
			return Event{Kind: Packet, Packet: k.kind, Gen: p.gen, SrcEpoch: p.epoch, DstEpoch: 2, Body: k.append(nil),
				Tuple: samples[0].tuple, Busy: b.Byte()%2 == 0}, 0
		}
		k := packet{kind: PacketState, flags: flagAnswer, window: ring, mtu: leastMTU, stamp: 1, tuple: samples[0].tuple}
		return Event{Kind: Packet, Packet: k.kind, Gen: p.gen + 1, SrcEpoch: max(1, p.epoch), DstEpoch: 2,
			Body: k.append(nil), Tuple: k.tuple}, 0
	}
	b.controls += 2
	k := packet{
		kind: PacketKind(1 + b.Byte()%byte(packetKinds-1)), flags: b.Byte() % 8, window: b.Byte() % (ring + 1),
		mtu:   leastMTU + uint16(b.Byte())<<4,
		stamp: 1 + uint16(b.Byte()), echo: uint16(b.Byte()), epoch: 1 + uint16(b.Byte()%3),
		attempt: max(1, b.number(p.fin.attempt)), count: uint64(b.number(uint32(p.fin.received))),
		sack: uint64(b.Byte()) << (b.Byte() % 64), tuple: fabric.Tuple{Kind: fabric.ETH4, Num: uint32(b.Byte())},
		payload: make([]byte, b.Byte()),
	}
	k.seq, k.ack = b.number(0), b.number(0)
	if p.win != nil {
		k.seq, k.ack = b.number(p.win.want), b.number(p.win.next)
	}
	body := k.append(nil)
	if n := int(b.Byte()); n < len(body) && n > 200 {
		body = binary.BigEndian.AppendUint16(body[:n], uint16(n))
	}
	return Event{
		Kind: Packet, Packet: k.kind, Gen: p.gen + uint32(b.Byte()%4) - 1, SrcEpoch: uint16(b.Byte() % 4),
		DstEpoch: uint16(b.Byte() % 4), Body: body,
		Tuple: k.tuple, Busy: b.Byte()%8 == 0,
	}, time.Duration(b.Byte()) * time.Millisecond
}
