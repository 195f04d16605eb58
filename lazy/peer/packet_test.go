package peer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
)

var samples = []packet{
	{kind: PacketState, flags: flagAnswer, mtu: 1400, window: 64, stamp: 1,
		tuple: fabric.Tuple{Kind: fabric.ETH4, Addr: [16]byte{10, 0, 0, 1}, Num: 4000}},
	{kind: PacketState, flags: flagHaveYou | flagAnswer, mtu: 4096, stamp: 9, echo: 65535,
		tuple: fabric.Tuple{Kind: fabric.IB, LID: 9, Num: 70000}},
	{kind: PacketReject, epoch: 3, tuple: fabric.Tuple{Kind: fabric.NONE}},
	{kind: PacketSegment, seq: 7, ack: 3, sack: 5, held: 3, hold: holdMost, window: 1, flags: flagFirst,
		payload: []byte("abc")},
	{kind: PacketSegment, flags: flagFirst | flagLast | flagControl, payload: []byte{}},
	{kind: PacketSegment, flags: flagFirst | flagLast | flagBundle, payload: []byte("\x00\x01a")},
	{kind: PacketAck, ack: 1 << 31, sack: 1 << 63, held: 1<<16 - 1, hold: 4, window: 64, flags: flagAsk},
	{kind: PacketFin, attempt: 1, count: 1 << 40},
	{kind: PacketFinAck, attempt: 2},
	{kind: PacketFinNak, attempt: 3},
}

func TestPackets(t *testing.T) {
	for _, k := range samples {
		b := k.append(nil)
		var got packet
		require.True(t, got.parse(k.kind, b), "%v", k.kind)
		require.Equal(t, k, got)
		require.False(t, k.kind != PacketSegment && got.parse(k.kind, append(b, 0)), "%v with a byte too many", k.kind)
		require.False(t, len(k.payload) == 0 && got.parse(k.kind, b[:len(b)-1]), "%v with a byte too few", k.kind)
	}
}

func TestPacketsRefused(t *testing.T) {
	for name, k := range map[string]packet{
		"no flags":     {kind: PacketState, mtu: 1400, stamp: 1, tuple: samples[0].tuple},
		"unknown flag": {kind: PacketState, flags: 4 | flagAnswer, mtu: 1400, stamp: 1, tuple: samples[0].tuple},
		"small MTU": {kind: PacketState, flags: flagAnswer, mtu: leastMTU - 1, stamp: 1,
			tuple: samples[0].tuple},
		"window": {kind: PacketState, flags: flagAnswer, mtu: 1400, window: ring + 1, stamp: 1,
			tuple: samples[0].tuple},
		"no stamp": {kind: PacketState, flags: flagAnswer, mtu: 1400, tuple: samples[0].tuple},
		"nowhere": {kind: PacketState, flags: flagAnswer, mtu: 1400, stamp: 1,
			tuple: fabric.Tuple{Kind: fabric.NONE}},
		"epoch 0":            {kind: PacketReject, tuple: samples[0].tuple},
		"empty middle":       {kind: PacketSegment, flags: flagFirst},
		"unknown in segment": {kind: PacketSegment, flags: 16, payload: []byte{1}},
		"two kinds":          {kind: PacketSegment, flags: flagControl | flagBundle, payload: []byte{1}},
		"attempt 0":          {kind: PacketFin},
		"unknown in ACK":     {kind: PacketAck, flags: 2},
		"hold":               {kind: PacketAck, hold: holdMost + 1},
		"hold in segment":    {kind: PacketSegment, hold: holdMost + 1, payload: []byte{1}},
		"unknown kind":       {kind: packetKinds, attempt: 1},
	} {
		var got packet
		require.False(t, got.parse(k.kind, k.append(nil)), name)
	}
}

// FuzzPacket: what parses encodes to the same bytes, and no bytes upset a Peer.
func FuzzPacket(f *testing.F) {
	for _, k := range samples {
		f.Add(uint8(k.kind), k.append(nil))
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		var k packet
		if k.parse(PacketKind(kind), b) {
			require.Equal(t, b, k.append([]byte{}))
		}
		w := newWorld(1, chances{ranks: 2})
		e := w.ranks[0].ends[1]
		w.connect(0, 1)
		gen := e.peer.gen
		for range 2 { // in Up, and in what follows
			e.peer.Step(w.Now, Event{Kind: Packet, Packet: PacketKind(kind), Gen: gen, SrcEpoch: 1, DstEpoch: 1,
				Body: b, Tuple: e.other.tuple})
			e.peer.Step(w.Now, Event{Kind: Rest})
		}
	})
}
