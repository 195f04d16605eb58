package peer

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestShut: a peer whose application takes nothing shuts its window, is asked
// by timer, and the sender waits for as long as it takes.
func TestShut(t *testing.T) {
	k := fair(2)
	k.cfg = Config{MTU: 1000, Inbox: 5000, Window: 4, Stage: 1 << 20}
	w := newWorld(1, k)
	a, b := w.pair()
	w.connect(0, 1)
	b.idle = true
	w.At(w.Now, func() {
		for range 50 {
			a.send(900, false)
		}
	})
	stop := w.Now + 2*giveUp
	w.RunUntil(stop)
	require.NoError(t, w.Fault)
	require.Equal(t, Up, a.peer.State(), "shut for a minute, but alive")
	require.Empty(t, a.causes)
	require.Greater(t, a.peer.Unacked(), 35)
	require.LessOrEqual(t, b.peer.untaken, 5000+5*900)
	require.Greater(t, w.posts[PacketAck], 100, "questions")
	w.At(w.Now, func() { b.step(Event{Kind: Taken, N: b.peer.untaken}) })
	b.idle = false
	before := len(w.took)
	w.RunUntil(stop + 3*w.delay)
	require.Greater(t, len(w.took), before, "the receiver must send a window update at once, so that messages arrive")
	require.NoError(t, w.run())
	require.Zero(t, a.peer.Unacked())
	require.Less(t, w.Now-stop, time.Second)
}

// TestLatency: one packet in a hundred is lost, and it costs little.
func TestLatency(t *testing.T) {
	k := fair(2)
	k.loss, k.active = 0.01, time.Hour
	k.cfg = Config{MTU: 1400}
	w := newWorld(3, k)
	a, b := w.pair()
	w.connect(0, 1)
	for i := range 20_000 {
		w.At(w.Now+time.Duration(i)*200*time.Microsecond, func() {
			a.send(64, false)
			if i%3 == 0 {
				b.send(3000, false)
			}
		})
	}
	require.NoError(t, w.run())
	require.Zero(t, a.peer.Unacked()+b.peer.Unacked())
	slices.Sort(w.took)
	p50, p99, most := w.took[len(w.took)/2], w.took[len(w.took)*99/100], w.took[len(w.took)-1]
	t.Logf("p50 %v, p99 %v, most %v, %+v", p50, p99, most, a.peer.Counts())
	require.Less(t, p50, 200*time.Microsecond)
	require.Less(t, p99, 50*time.Millisecond)
	require.Less(t, most, 500*time.Millisecond)
}

// TestBulk: a long queue fills the window, and a lost segment is found
// without its timer.
func TestBulk(t *testing.T) {
	k := fair(2)
	k.loss, k.active = 0.01, time.Hour
	k.cfg = Config{MTU: 1400, Stage: 8 << 20}
	w := newWorld(4, k)
	a, b := w.pair()
	w.connect(0, 1)
	x, y := a.peer.win, b.peer.win // numbers that are about to wrap
	x.una, x.next, x.limit = x.una-100, x.next-100, x.limit-100
	y.want -= 100
	start := w.Now
	for range 400 {
		a.send(16<<10, false)
	}
	require.NoError(t, w.run())
	require.Len(t, w.took, 400)
	c := a.peer.Counts()
	t.Logf("%v, %+v, round trip %v, time-out %v", slices.Max(w.took), c, a.peer.win.srtt, a.peer.win.rto)
	require.Less(t, slices.Max(w.took), 500*time.Millisecond, "6.5 MB at about 10 segments in 200 us")
	require.Less(t, c.TimedOut, uint64(10))
	require.Greater(t, w.Now, start)
}

// TestQuietTimer: a busy pair does not touch its timer for every message.
func TestQuietTimer(t *testing.T) {
	w := newWorld(1, fair(2))
	a, b := w.pair()
	w.connect(0, 1)
	w.timers = 0
	for i := range 1000 {
		w.At(w.Now+time.Duration(i)*200*time.Microsecond, func() { a.send(64, false) })
		w.At(w.Now+time.Duration(i)*200*time.Microsecond+100*time.Microsecond, func() { b.send(64, false) })
	}
	require.NoError(t, w.run())
	require.Len(t, w.took, 2000)
	require.Less(t, w.timers, 1000, "two Peers, 200 ms: for an acknowledgement and what follows it, each ms")
	require.Less(t, w.posts[PacketAck], 20, "answers carry the acknowledgements")
}

// TestFlood: in a flood many segments share an acknowledgement. After a pause two do again, so that
// who waits for it does not wait for a timer.
func TestFlood(t *testing.T) {
	w := newWorld(1, fair(2))
	a, _ := w.pair()
	w.connect(0, 1)
	before := w.posts[PacketAck]
	for range 1000 {
		a.send(64, false)
	}
	require.NoError(t, w.run())
	require.Len(t, w.took, 1000)
	acks := w.posts[PacketAck] - before
	require.Less(t, acks, 1000/manyOwed+manyOwed+2, "one more each time")
	a.send(64, false)
	require.NoError(t, w.run()) // a pause
	for range fewOwed {
		a.send(64, false)
	}
	w.RunUntil(w.Now + 3*w.delay)
	require.Zero(t, a.peer.Unacked())
}

// BenchmarkStep is a 64-byte message there and one back: four Steps.
func BenchmarkStep(b *testing.B) {
	w := newWorld(1, fair(2))
	x, y := w.pair()
	w.connect(0, 1)
	now := w.Now
	x.peer.trace, y.peer.trace = nil, nil
	msg := make([]byte, 64)
	body := make([]byte, 128)
	hand := func(from, to *end) {
		for _, e := range from.peer.Step(now, Event{Kind: Send, Msg: msg}) {
			if e.Kind == Transmit {
				n := copy(body[:], e.Body)
				to.peer.Step(now+1, Event{Kind: Packet, Packet: e.Packet, Gen: e.Gen, SrcEpoch: 1, DstEpoch: 1,
					Body: body[:n], Tuple: from.self.tuple})
			}
		}
		to.peer.Step(now+2, Event{Kind: Taken, N: len(msg)})
		now += 1000
	}
	b.ReportAllocs()
	for b.Loop() {
		hand(x, y)
		hand(y, x)
	}
	require.LessOrEqual(b, x.peer.Unacked(), 1)
}
