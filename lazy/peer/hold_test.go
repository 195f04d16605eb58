package peer

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// alternate lets two ranks send a message to each other in each step: the second one half a step
// after the first.
func (w *world) alternate(count int, step time.Duration) {
	a, b := w.pair()
	for i := range count {
		at := w.Now + time.Duration(i)*step
		w.At(at, func() { a.send(64, false) })
		w.At(at+step/2, func() { b.send(64, false) })
	}
}

// TestHeld: where answers take long, messages carry the acknowledgements although they come seldom.
// Where answers are fast, nothing is held for such a step, since a lost segment would cost more
// than the acknowledgements do.
func TestHeld(t *testing.T) {
	const count, step = 300, 30 * time.Millisecond
	for _, c := range []struct {
		delay time.Duration
		held  bool
	}{{4 * time.Millisecond, true}, {50 * time.Microsecond, false}} {
		k := fair(2)
		k.delay = c.delay
		w := newWorld(1, k)
		a, b := w.pair()
		w.connect(0, 1)
		w.timers = 0
		w.alternate(count, step)
		require.NoError(t, w.run())
		require.Len(t, w.took, 2*count)
		require.Zero(t, a.peer.Counts().Resent+b.peer.Counts().Resent)
		if c.held {
			require.Less(t, w.posts[PacketAck], 10)
			require.Less(t, w.timers, 2*count*11/10, "one a step for each")
			require.Less(t, a.peer.win.srtt, 3*c.delay, "what is held is not a part of the round trip")
		} else {
			require.Equal(t, 2*count, w.posts[PacketAck])
		}
	}
}

// TestHeldSharedCore: the same for all pairs of sixteen ranks that share a core, which begin a step
// when they have the messages of the one before.
func TestHeldSharedCore(t *testing.T) {
	const ranks, count = 16, 40
	w := newWorld(1, chances{ranks: ranks, work: 100 * time.Microsecond, room: 1000})
	for _, r := range w.ranks {
		r.exchange(count)
	}
	require.NoError(t, w.run())
	messages := ranks * (ranks - 1) * count
	require.Len(t, w.took, messages)
	require.Less(t, w.posts[PacketAck], messages/4)
	require.Less(t, w.posts[PacketSegment], messages*51/50)
}

// exchange sends a message to every other rank again and again, each time that one of all has come.
func (r *rank) exchange(count int) {
	step := 0
	var look func()
	look = func() {
		for _, e := range r.ends {
			if e != nil && e.other.ends[r.id].flow.last < step-1 {
				e.w.At(e.w.Now+time.Millisecond, look)
				return
			}
		}
		if step == count {
			return
		}
		step++
		for n := 1; n < len(r.ends); n++ {
			e := r.ends[(r.id+n)%len(r.ends)]
			e.send(headLen, false)
			if n == 1 {
				e.w.At(e.w.Now+time.Millisecond, look)
			}
		}
	}
	look()
}

// heldDelay is a way on which two ranks with steps of 30 ms hold acknowledgements.
const heldDelay = 4 * time.Millisecond

// holding is two ranks that do.
func holding(step time.Duration) (w *world, a, b *end) {
	k := fair(2)
	k.delay = heldDelay
	w = newWorld(1, k)
	a, b = w.pair()
	w.connect(0, 1)
	w.alternate(20, step)
	w.RunUntil(w.Now + 20*step)
	return w, a, b
}

// TestHeldEnds: the last acknowledgement is not held for longer than the peer was told, one that is
// asked for comes at once, and what is one way only is not held.
func TestHeldEnds(t *testing.T) {
	w, a, b := holding(30 * time.Millisecond)
	a.send(64, false)
	w.RunUntil(w.Now + 2*heldDelay)
	require.Equal(t, 1, a.peer.Unacked(), "it is held")
	require.Positive(t, a.peer.win.hold.peers)
	a.step(Event{Kind: Flush})
	w.RunUntil(w.Now + 2*heldDelay)
	require.Zero(t, a.peer.Unacked())
	before := w.posts[PacketAck]
	a.step(Event{Kind: Flush})
	require.Equal(t, before, w.posts[PacketAck], "there is nothing to ask for")
	a.send(64, false)
	sent, promised := w.Now, a.peer.win.hold.peers
	for w.Now < sent+time.Second && a.peer.Unacked() > 0 {
		w.RunUntil(w.Now + time.Millisecond)
	}
	require.LessOrEqual(t, w.Now-sent, promised+2*heldDelay+time.Millisecond)
	require.Zero(t, b.peer.win.hold.long, "nothing has carried it")
	a.send(64, false)
	w.RunUntil(w.Now + 2*heldDelay + ackDelay)
	require.Zero(t, a.peer.Unacked())
	require.Zero(t, a.peer.Counts().Resent+b.peer.Counts().Resent)
}

// TestHeldLoss: what is lost costs what was promised and a few round trips.
func TestHeldLoss(t *testing.T) {
	k := fair(2)
	k.delay, k.loss, k.active = 4*time.Millisecond, 0.02, time.Hour
	w := newWorld(5, k)
	a, b := w.pair()
	w.connect(0, 1)
	const step = 30 * time.Millisecond
	w.alternate(2000, step)
	require.NoError(t, w.run())
	require.Zero(t, a.peer.Unacked()+b.peer.Unacked())
	require.Len(t, w.took, 4000)
	require.Less(t, w.posts[PacketAck], 2000)
	slices.Sort(w.took)
	require.Less(t, w.took[len(w.took)*95/100], 2*k.delay)
	require.Less(t, w.took[len(w.took)-1], 500*time.Millisecond)
}

// TestHeldSchedules: whatever the way and the steps of two ranks are, which change at times, no
// segment is sent twice on a way that loses nothing, no acknowledgement waits for longer than
// promised, and on any way all arrive once and in order.
func TestHeldSchedules(t *testing.T) { runHeldSchedules(t, 100) }

func runHeldSchedules(t *testing.T, count uint64) {
	held := 0
	for seed := range count {
		r := rand.New(rand.NewPCG(seed, 42))
		k := fair(2)
		k.delay = time.Duration(r.Int64N(int64(8 * time.Millisecond)))
		lossy := r.IntN(2) == 0
		if lossy {
			k.loss, k.dup, k.again = r.Float64()/10, r.Float64()/10, r.Float64()/20
			k.sway, k.active = time.Duration(r.Int64N(int64(20*time.Millisecond))), time.Hour
		}
		w := newWorld(seed, k)
		a, b := w.pair()
		w.connect(0, 1)
		at, count := w.Now, 0
		longest := time.Duration(0)
		for range 1 + r.IntN(4) {
			step := time.Duration(r.Int64N(int64(60 * time.Millisecond)))
			for range 10 + r.IntN(30) {
				at += step/2 + time.Duration(r.Int64N(int64(step+1)))
				count++
				from, size := a, 64+r.IntN(2000)
				if r.IntN(2) == 0 {
					from = b
				}
				w.At(at, func() {
					from.send(size, false)
					longest = max(longest, from.peer.win.hold.long)
				})
			}
		}
		require.NoError(t, w.run(), "seed %d", seed)
		require.NoError(t, w.Fault, "seed %d", seed)
		require.Len(t, w.took, count, "seed %d", seed)
		require.Zero(t, a.peer.Unacked()+b.peer.Unacked(), "seed %d", seed)
		if !lossy {
			require.Zero(t, a.peer.Counts().Resent+b.peer.Counts().Resent, "seed %d", seed)
		}
		if longest > 0 {
			held++
		}
	}
	require.Greater(t, held, int(count)/4)
}

// TestHeldNarrow: a sender whose window is narrow after losses does not wait for what is held.
func TestHeldNarrow(t *testing.T) {
	w, a, b := holding(60 * time.Millisecond)
	win := a.peer.win
	require.Greater(t, win.hold.peers, 4*heldDelay)
	win.cwnd, win.thresh, b.peer.win.most = leastCwnd, leastCwnd, manyOwed
	before := len(w.took)
	a.send(6*a.peer.Packet(), false)
	w.RunUntil(w.Now + 6*heldDelay)
	require.Len(t, w.took, before+1, "three round trips for two packets and more each")
}
