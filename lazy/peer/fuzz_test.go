package peer

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/test/fuzzed"
)

// FuzzPeer is a peer whose packets make no sense, among what the owner does: a
// Peer does little for each event, sends what parses, wants its timer in the
// future, and holds no more than it was given.
func FuzzPeer(f *testing.F) {
	f.Add([]byte{1, 3, 4, 5, 1, 9, 0, 4, 6, 0, 0, 7, 9, 1, 2})
	for k := range byte(9) {
		f.Add([]byte{0, 200, 3, 6, k, 1, 0, 1, 4, 1, 2, 6, k + 1, 1, 1, 1, 8, 8, 6, 3, 0, 1, 1, 0, 0, 7, 6, 5, 1, 1, 1,
			2, 3, 4, 9})
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		p := New(Config{Epoch: 2, Tuple: samples[0].tuple, MTU: 1400, Seed: 1})
		b := &owner{input}
		now, given, received := time.Duration(0), 0, 0
		for len(b.Input) > 0 {
			ev, later := b.event(p)
			now += later
			if ev.Kind == Send || ev.Kind == Control {
				given += len(ev.Msg)
			}
			received += len(ev.Body)
			effects := p.Step(now, ev)
			require.LessOrEqual(t, len(effects), 1000)
			for _, e := range effects {
				switch e.Kind {
				case Transmit:
					var k packet
					require.True(t, k.parse(e.Packet, e.Body), "%v is sent", e.Packet)
					require.LessOrEqual(t, len(e.Body), 1400)
				case SetTimer:
					require.GreaterOrEqual(t, e.At, now)
				case Deliver, DeliverControl:
					received -= len(e.Msg)
					require.GreaterOrEqual(t, received, 0, "more is delivered than has come")
				}
			}
			require.LessOrEqual(t, p.unackedBytes, given+messageCost*p.pending)
			require.GreaterOrEqual(t, p.pending, 0)
		}
	})
}

// owner is who gives a Peer its events.
type owner struct{ fuzzed.Input }

// number is one that may matter: near what is known, or far from it.
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

func (b *owner) event(p *Peer) (ev Event, later time.Duration) {
	switch b.Byte() % 10 {
	case 0:
		return Event{Kind: Send, Msg: make([]byte, int(b.Byte())*int(b.Byte()))}, 0
	case 1:
		return Event{Kind: Control, Msg: make([]byte, b.Byte())}, 0
	case 2:
		return Event{Kind: Warm}, 0
	case 3:
		return Event{Kind: Resolved, Tuple: samples[0].tuple, Epoch: uint16(1 + b.Byte()%3)}, 0
	case 4:
		return Event{Kind: Unresolved, Cause: Cause(1 + b.Byte()%3)}, 0
	case 5:
		return Event{Kind: Tick}, time.Duration(b.Byte()) << (b.Byte() % 40)
	case 6:
		return Event{Kind: Rest}, 0
	case 7:
		return Event{Kind: Taken, N: int(b.Byte()) << 8}, 0
	}
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
		Tuple: k.tuple, Keep: b.Byte()%8 == 0,
	}, time.Duration(b.Byte()) * time.Millisecond
}
