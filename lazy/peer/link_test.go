package peer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// link is the way between two ranks, each direction by itself: packets leave one after the other,
// and what finds too many before it is lost.
type link struct {
	each  time.Duration // that a packet takes to leave
	depth int           // packets that wait to leave
	free  [2]time.Duration
}

// leaves is when a packet has left that is sent now; false: it is lost.
func (l *link) leaves(from int, now time.Duration) (at time.Duration, ok bool) {
	free := max(l.free[from], now)
	if free-now > time.Duration(l.depth)*l.each {
		return 0, false
	}
	l.free[from] = free + l.each
	return l.free[from], true
}

// flood keeps a pair's stage full of messages of a KiB.
type flood struct {
	w    *world
	from *end
	over bool
}

func newFlood(l link, delay, sway time.Duration) *flood {
	k := fair(2)
	k.delay, k.sway, k.link = delay, sway, &l
	k.active = time.Hour // until then, chances count
	k.cfg = Config{MTU: 1400, Stage: 64 << 10}
	f := &flood{w: newWorld(3, k)}
	f.from, _ = f.w.pair()
	f.w.connect(0, 1)
	f.feed()
	return f
}

func (f *flood) feed() {
	const size, often = 1 << 10, 50 * time.Microsecond
	for f.from.peer.Room() >= size && !f.over {
		f.from.send(size, false)
	}
	if !f.over {
		f.w.At(f.w.Now+often, f.feed)
	}
}

// rate is the messages that arrive in a ms, with such a loss, over some time.
func (f *flood) rate(loss float64, over time.Duration) float64 {
	f.w.loss = loss
	before := len(f.w.took)
	f.w.RunUntil(f.w.Now + over)
	return float64(len(f.w.took)-before) / float64(over/time.Millisecond)
}

// TestLossyLink: a link of 100,000 packets in a second that loses some of everything carries at
// least so much of what it can, and after that all of it again within a twentieth of a second. A
// window that is halved for each loss carried 0.88, 0.35, 0.13 and 0.005 of it, and 0.05 after such
// a time.
func TestLossyLink(t *testing.T) {
	const full, delay = 100.0, 100 * time.Microsecond
	for _, c := range []struct {
		loss, least float64
		depth       int
	}{{0.001, 0.9, 20}, {0.01, 0.85, 20}, {0.05, 0.75, 20}, {0.05, 0.75, 1000}, {0.3, 0.009, 20}} {
		f := newFlood(link{each: 10 * time.Microsecond, depth: c.depth}, delay, 0)
		f.rate(0, 20*time.Millisecond)
		require.Greater(t, f.rate(0, 20*time.Millisecond), 0.9*full)
		during := f.rate(c.loss, 200*time.Millisecond)
		require.Greater(t, during, c.least*full, "%+v", c)
		// What was there long before its acknowledgement arrived is no round trip.
		require.LessOrEqual(t, f.from.peer.win.rto, 2*leastRTO, "%+v", c)
		f.rate(0, 50*time.Millisecond)
		after := f.rate(0, 20*time.Millisecond)
		require.Greater(t, after, 0.9*full, "after %+v", c)
		t.Logf("%+v: %.1f, then %.1f", c, during, after)
		f.end(t)
	}
}

// TestReorderedLink: the same where packets overtake each other by up to three others, and where
// the link stands still for a while.
func TestReorderedLink(t *testing.T) {
	const full = 100.0
	f := newFlood(link{each: 10 * time.Microsecond, depth: 1000}, 100*time.Microsecond, 30*time.Microsecond)
	f.rate(0, 20*time.Millisecond)
	require.Greater(t, f.rate(0, 50*time.Millisecond), 0.9*full)
	require.Less(t, float64(f.from.peer.Counts().Resent), 0.01*float64(len(f.w.took)))
	require.Less(t, f.rate(1, 2*time.Second), 1.0, "nothing arrives but what was under way")
	f.rate(0, 500*time.Millisecond)
	require.Greater(t, f.rate(0, 20*time.Millisecond), 0.9*full, "half a second after two seconds without a link")
	f.end(t)
}

// end lets all arrive, once.
func (f *flood) end(t *testing.T) {
	f.over, f.w.loss = true, 0
	require.NoError(t, f.w.run())
	require.Zero(t, f.from.peer.Unacked())
	require.Len(t, f.w.took, len(f.from.flow.sent))
	require.Empty(t, f.from.causes)
}
