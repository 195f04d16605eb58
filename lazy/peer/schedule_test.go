package peer

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/seeded"
)

// pick makes the chances of a schedule.
func pick(seed uint64, ranks int) chances {
	r := rand.New(rand.NewPCG(seed, 1))
	of := func(list ...float64) float64 { return list[r.IntN(len(list))] }
	span := func(list ...time.Duration) time.Duration { return list[r.IntN(len(list))] }
	k := chances{
		ranks: ranks,

		loss:  of(0, 0.01, 0.1, 0.3, 0.5),
		dup:   of(0, 0, 0.05, 0.3),
		again: of(0, 0.02, 0.1, 0.5),
		delay: span(20*time.Microsecond, 100*time.Microsecond, time.Millisecond),
		sway:  span(0, 50*time.Microsecond, time.Millisecond, 20*time.Millisecond),

		answer: span(0, time.Millisecond, 20*time.Millisecond, 300*time.Millisecond),
		stale:  of(0, 0.3, 0.9),
		wrong:  of(0, 0, 0.2, 0.8),
		slow:   span(0, 0, 500*time.Microsecond, 100*time.Millisecond),
		active: span(20*time.Millisecond, 200*time.Millisecond, time.Second),

		sends: 1 + r.IntN(16),
		rests: int(of(0, 4, 40)),
		size:  int(of(headLen, 600, 3000)),

		restarts: max(r.IntN(5)-1, 0),
		splits:   r.IntN(3),
		split:    300 * time.Millisecond,
		cfg: Config{MTU: leastMTU + r.IntN(1000), Window: int(of(0, 1, 5)), Stage: int(of(0, 0, 5000)),
			Inbox: int(of(0, 1, 3000))},
	}
	if r.IntN(10) == 0 {
		k.exits = 1
	}
	if r.IntN(30) == 0 {
		k.active, k.split = 40*time.Second, 35*time.Second
	}
	k.kept = of(0, 0, 0.3)
	if r.IntN(20) == 0 {
		k.freezes, k.freeze = 1+r.IntN(2), 100*time.Second
	}
	return k
}

// plan puts everything that the ranks and the agent do on the calendar.
func (w *world) plan() {
	some := func(n int, do func(r *rank)) {
		for range n {
			r := w.ranks[w.Rand.IntN(len(w.ranks))]
			w.At(w.UpTo(w.active), func() { do(r) })
		}
	}
	other := func(r *rank) *end {
		i := w.Rand.IntN(len(w.ranks) - 1)
		if i >= r.id {
			i++
		}
		return r.ends[i]
	}
	n := len(w.ranks) / 2
	some(w.sends*n, func(r *rank) {
		e := other(r)
		for range 1 + w.Rand.IntN(4) {
			e.send(w.Rand.IntN(w.size+1), w.Rand.IntN(10) == 0)
		}
		if w.Rand.IntN(2) == 0 { // crossing
			e.other.ends[r.id].send(w.Rand.IntN(w.size+1), false)
		}
	})
	some(w.rests*n, func(r *rank) {
		e := other(r)
		e.step(Event{Kind: Rest})
		if w.Rand.IntN(2) == 0 {
			e.other.ends[r.id].step(Event{Kind: Rest})
		}
	})
	w.At(w.active+w.freeze+time.Minute, w.curtain)
	some(2, func(r *rank) { other(r).step(Event{Kind: Tick}) })
	some(w.Rand.IntN(2), func(r *rank) { other(r).step(Event{Kind: Warm}) })
	some(w.restarts, func(r *rank) {
		if r.alive {
			w.stop(r, false)
			if w.Rand.IntN(2) == 0 {
				w.restart(r)
				return
			}
			w.At(w.Now+w.UpTo(50*time.Millisecond), func() { w.start(r, false) })
		}
	})
	some(w.exits, func(r *rank) {
		if r.alive {
			w.stop(r, true)
		}
	})
	some(w.freezes, func(r *rank) {
		if r.alive {
			r.thaw = w.Now + w.UpTo(w.freeze)
			w.Log("rank %d stands still until %v", r.id, r.thaw)
		}
	})
	some(w.splits, func(r *rank) {
		o := other(r).other
		until := w.Now + w.UpTo(w.split)
		w.cut[[2]int{r.id, o.id}] = until
		if w.Rand.IntN(2) == 0 {
			w.cut[[2]int{o.id, r.id}] = until
		}
	})
}

// curtain comes a minute after all goes well and nobody stands still. Both sides of a pair
// must agree by then, and whatever is open must close when asked.
func (w *world) curtain() {
	for _, r := range w.ranks {
		for _, e := range r.ends {
			if e == nil || e.dead {
				continue
			}
			p, o := e.peer, e.other.ends[r.id].peer
			if p.state != Up && p.state != Idle || !w.mayFail(WasReset) && (p.state != o.state || p.gen != o.gen) {
				w.Broken("%d is %v towards %d, generation %d; that is %v, %d", r.id, p.state, e.other.id, p.gen,
					o.state, o.gen)
			}
			first := w.Now
			if r.id > e.other.id {
				first += time.Second
			}
			w.At(first, func() { e.step(Event{Kind: Rest}) })
		}
	}
}

// mayFail reports whether the schedule has a reason for such a failure.
func (w *world) mayFail(c Cause) bool {
	gone := w.restarts > 0 || w.exits > 0
	long := w.active > giveUp
	switch c {
	case TimedOut:
		return long
	case Restarted:
		return gone
	case WasReset: // the other side has failed
		return gone || long || w.wrong > 0
	}
	return gone || w.wrong > 0
}

// atRest holds what is left at the end against what was promised.
func (w *world) atRest() error {
	for _, r := range w.ranks {
		for _, e := range r.ends {
			if e == nil {
				continue
			}
			if s := e.peer.State(); !e.dead && s != Idle {
				return fmt.Errorf("%d is %v towards %d at the end", r.id, s, e.other.id)
			}
			if n := e.peer.Unacked(); !e.dead && (n > 0 || e.peer.unackedBytes > 0 || e.peer.armed != never) {
				return fmt.Errorf("%d has %d messages, %d bytes for %d at the end", r.id, n, e.peer.unackedBytes,
					e.other.id)
			}
			if !e.dead && e.peer.Counts().Malformed > 0 {
				return fmt.Errorf("malformed packets")
			}
			for _, c := range e.causes {
				if !w.mayFail(c) {
					return fmt.Errorf("%d failed towards %d without a reason: %v", r.id, e.other.id, c)
				}
			}
			for _, l := range e.flows {
				for seq, m := range l.sent {
					if !m.delivered && !m.lost && (m.acked || l == e.flow && !e.dead) {
						return fmt.Errorf("%d->%d %d has vanished", r.id, e.other.id, seq)
					}
				}
			}
		}
	}
	return nil
}

func runSchedule(seed uint64, ranks int, trace func(string, ...any)) (seeded.Counts, error) {
	k := pick(seed, ranks)
	k.trace = trace
	w := newWorld(seed, k)
	w.plan()
	if err := w.run(); err != nil {
		return nil, err
	}
	return w.used, w.atRest()
}

// TestSchedules runs seeded schedules of loss, duplicates, reordering,
// partitions, crossing requests, closes, restarts and stale answers. All must
// converge. A failure prints the command that replays it.
func TestSchedules(t *testing.T) {
	runSchedules(t, 1_000)
}

// runSchedules runs count random schedules. It returns how often each input came in each state.
func runSchedules(t *testing.T, count int) seeded.Counts {
	ever := seeded.Run(t, count, "./lazy/peer", runSchedule)
	for state := range states {
		for _, r := range index[state] {
			n := ever[[2]int{int(state), int(r.inputs[0])}]
			t.Logf("%-10v %-20v %d", state, r.inputs[0], n)
			if strings.HasPrefix(r.why, "cannot be") {
				require.Zero(t, n, "%v, %v: %s", state, r.inputs[0], r.why)
			}
		}
	}
	return ever
}
